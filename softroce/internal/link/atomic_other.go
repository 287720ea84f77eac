//go:build !linux && !darwin && !freebsd

// This file is systems where a socket cannot foresee its identifications.

package link

// neverFragment does nothing: there is no such option.
func neverFragment(int, bool) error { return nil }

// testIdentification has nothing to test.
func (s *Socket) testIdentification() {
	s.interop(InteropOff, "this system has no way to send DF; try: an IPv6 address")
}
