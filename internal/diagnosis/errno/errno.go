// Package errno has error numbers that some systems lack.
package errno
