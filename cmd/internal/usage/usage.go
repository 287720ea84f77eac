// Package usage has the errors of a command line: choices that fail with any device and any peer. Programs end with status 2
// after one.
package usage

import "fmt"

// Error reports choices on a command line that fail with any device and any peer.
type Error struct{ error }

// Unwrap returns the wrapped error.
func (e Error) Unwrap() error { return e.error }

// Errorf returns an Error with the text of fmt.Errorf; %w wraps.
func Errorf(format string, args ...any) error { return Error{fmt.Errorf(format, args...)} }
