// Package room looks into the receive buffers of other sockets on this host.
//
// A UDP sender never learns that a receiver is slower: the kernel drops what does not fit into
// the receiver's buffer. RC sends it again. UC and UD lose it, unlike on a fabric that pauses its
// senders. But any user may ask Linux for the length of a UDP socket's queue (sock_diag(7)). So
// senders of UC and UD look before they send. Receivers on other hosts, in other network
// namespaces, and on systems without sock_diag are unknown; they are never full.
package room
