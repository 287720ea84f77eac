// Package errno names errnos that not every system has.
package errno
