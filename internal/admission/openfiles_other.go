//go:build !unix

package admission

// openFiles returns how many files the process may have open. This system does not report it.
func openFiles() uint64 { return 4 * mostSilent }
