// This file is the part of the self-test at opening that is the same on all
// systems. It asks one question: does a packet leave with the identification
// that its ICRC covers? RDMA of kernel and hardware drops it silently if not.

package link

// selfTest finds out whether RDMA devices take what s sends, and tells Status.
func (s *Socket) selfTest() {
	if s.local.Addr().Is6() {
		s.interop(InteropOn, "IPv6 has no identification")
		return
	}
	s.testIdentification()
}
