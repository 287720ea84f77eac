//go:build !linux && !darwin && !freebsd

// IPv4 identifications on systems where a socket cannot predict them.

package link

// neverFragment does nothing: this system has no such option.
func neverFragment(int, bool) error { return nil }

// testIdentification notes that RDMA devices of the kernel and of hardware drop the packets.
func (s *Socket) testIdentification() {
	s.note("interop with kernel RDMA is off: this system cannot set DF; try: an IPv6 address")
}
