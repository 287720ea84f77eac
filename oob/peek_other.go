//go:build !unix

package oob

import "syscall"

// peek does not wait: the first read does.
func peek(syscall.Conn) error { return nil }
