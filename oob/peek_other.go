//go:build !unix

package oob

import "syscall"

// peek returns at once on this system; the first read waits instead.
func peek(syscall.Conn) error { return nil }
