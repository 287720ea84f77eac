// The self-test of Open: the part that is the same on all systems. It tests whether a
// packet leaves with the identification that its ICRC covers. If not, RDMA devices of the
// kernel and of hardware drop the packet silently.

package link

// selfTest tests whether RDMA devices accept the packets of s, and sets Status.Interop.
func (s *Socket) selfTest() {
	if s.local.Addr().Is6() {
		s.interop(InteropOn, "IPv6 has no identification")
		return
	}
	s.testIdentification()
}
