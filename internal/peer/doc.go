// Package peer has what the rooms of foreign programs share: the raw TCP exchange
// and the encoding of C structures. Each program has a folder of its own here, with
// its messages, its exchange and its job.
package peer
