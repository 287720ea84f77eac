package link

func (s *Socket) selfTest() { s.interop(InteropUnknown, "not tested") }
