// Package selftest tests whether a socket's IPv4 packets leave with the identifications that
// their ICRCs cover. If not, RDMA devices of the kernel and of hardware drop the packets silently.
//
// A Test sends packets from the socket to a second one of this host, through a socket filter.
// The filter checks the IPv4 header, which a socket does not show.
package selftest
