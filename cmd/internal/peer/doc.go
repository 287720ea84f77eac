// Package peer has what the packages for foreign programs share: the raw TCP exchange and the
// encoding of C structures. Each program has its own folder here, with its messages, its
// exchange and its job.
package peer
