//go:build !linux && !darwin && !freebsd

// IPv4 identifications on systems where a socket cannot predict them.

package link

// neverFragment does nothing: this system has no such option.
func neverFragment(int, bool) error { return nil }

// testIdentification reports that interop is off.
func (s *Socket) testIdentification() {
	s.interop(InteropOff, "this system cannot set DF; try: an IPv6 address")
}
