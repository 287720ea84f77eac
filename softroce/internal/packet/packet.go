// This file is a whole packet: Parse for one that came, Build for one to send,
// and the Packet both give.

package packet

// MaxPayload is the largest path MTU, and so the largest payload, in bytes.
const MaxPayload = 4096

// MaxPacket is the longest packet that Parse takes and Build makes, BTH to
// ICRC, in bytes: an RDMA WRITE ONLY with immediate.
const MaxPacket = bthLen + len(RETH{}) + len(ImmDt{}) + MaxPayload + icrcLen

// Packet is one packet, BTH to ICRC, as a view over the buffer it was parsed
// from or built in. It is small: pass it by value. It is valid as long as the
// buffer is; the zero Packet is good for nothing.
type Packet struct {
	bytes   []byte
	payload int32 // bytes of payload, without pad
	opcode  Opcode
}

// Parse checks that datagram, the whole payload of a UDP datagram, has the
// shape of a packet, and returns a view of it. An error is a ParseError. If HasBTH
// says that at least the BTH is there, the responder may have to answer all the same:
// of such a Packet only BTH and Opcode are good.
//
// It checks what the packet alone can tell. Left to the caller are the ICRC
// (Flow.Verify), P_Key, the queue pair, and the payload against the path MTU
// (Packet.PayloadFits), where the answer may be a NAK. The values of reserved
// bits and of pad bytes are not looked at.
func Parse(datagram []byte) (Packet, error) {
	if len(datagram) < bthLen+icrcLen {
		return Packet{}, ErrTruncated
	}
	bth := (*BTH)(datagram)
	if bth.TVer() != 0 {
		return Packet{}, ErrTVer
	}
	opcode := bth.Opcode()
	o := &opcodes[opcode]
	if o.transport == NoTransport {
		return Packet{bytes: datagram, opcode: opcode}, ErrOpcode
	}
	padded := len(datagram) - int(o.length) - icrcLen
	if padded < 0 {
		return Packet{bytes: datagram, opcode: opcode}, ErrTruncated
	}
	payload := padded - bth.Pad()
	if payload < 0 || padded%4 != 0 {
		return Packet{bytes: datagram, opcode: opcode}, ErrPad
	}
	if !o.payload.possible(payload) {
		return Packet{bytes: datagram, opcode: opcode}, ErrPayload
	}
	return Packet{bytes: datagram, payload: int32(payload), opcode: opcode}, nil
}

// Len returns the bytes, BTH to ICRC, of a packet of opcode o with
// payload bytes of payload.
func Len(o Opcode, payload int) int {
	return o.HeaderLen() + payload + padLen(payload) + icrcLen
}

func padLen(payload int) int { return -payload & 3 }

// Build lays a packet of opcode o with payload bytes of payload at the start of
// buf. Every byte of it is zero but OpCode, PadCnt, P_Key, which is DefaultPKey,
// and the payload, which is left as it was: the caller sets header fields
// through the views, fills Payload, and seals the whole with Flow.Seal.
//
// It fails with ErrOpcode, ErrPayload, or ErrTruncated when buf is shorter than
// Len.
func Build(buf []byte, o Opcode, payload int) (Packet, error) {
	info := &opcodes[o]
	if info.transport == NoTransport {
		return Packet{}, ErrOpcode
	}
	if payload < 0 || !info.payload.possible(payload) {
		return Packet{}, ErrPayload
	}
	n := Len(o, payload)
	if len(buf) < n {
		return Packet{}, ErrTruncated
	}
	buf = buf[:n:n]
	clear(buf[:info.length])
	clear(buf[int(info.length)+payload:])
	bth := (*BTH)(buf)
	bth.setShape(o, padLen(payload))
	bth.SetPKey(DefaultPKey)
	return Packet{bytes: buf, payload: int32(payload), opcode: o}, nil
}

// Bytes returns the whole packet, BTH to ICRC: the payload of a UDP datagram.
func (p Packet) Bytes() []byte { return p.bytes }

// Opcode returns the packet's opcode, always a known one.
func (p Packet) Opcode() Opcode { return p.opcode }

// Payload returns the payload without its pad. Its capacity ends with it.
func (p Packet) Payload() []byte {
	off := int(opcodes[p.opcode].length)
	end := off + int(p.payload)
	return p.bytes[off:end:end]
}

// PayloadFits says whether the payload is of a length right for the packet's
// opcode where the path MTU is mtu bytes: First and Middle exactly mtu, Last 1
// to mtu, Only 0 to mtu. A responder answers a request that does not fit with
// NAKInvalidRequest.
func (p Packet) PayloadFits(mtu int) bool {
	n := int(p.payload)
	switch opcodes[p.opcode].payload {
	case fullMTU:
		return n == mtu
	case upToMTU:
		return n <= mtu && (n > 0 || opcodes[p.opcode].place == Only)
	}
	return true // Parse and Build have seen to the others
}

// HasBTH says whether there is a BTH, of the one version that there is.
func (p Packet) HasBTH() bool { return len(p.bytes) > 0 }

// BTH returns the base transport header.
func (p Packet) BTH() *BTH { return (*BTH)(p.bytes) }

// DETH returns the DETH, nil if the opcode has none.
func (p Packet) DETH() *DETH {
	if off := opcodes[p.opcode].offsets[kindDETH]; off != 0 {
		return (*DETH)(p.bytes[off:])
	}
	return nil
}

// FETH returns the FETH, nil if the opcode has none.
func (p Packet) FETH() *FETH {
	if off := opcodes[p.opcode].offsets[kindFETH]; off != 0 {
		return (*FETH)(p.bytes[off:])
	}
	return nil
}

// RETH returns the RETH, nil if the opcode has none.
func (p Packet) RETH() *RETH {
	if off := opcodes[p.opcode].offsets[kindRETH]; off != 0 {
		return (*RETH)(p.bytes[off:])
	}
	return nil
}

// AtomicETH returns the AtomicETH, nil if the opcode has none.
func (p Packet) AtomicETH() *AtomicETH {
	if off := opcodes[p.opcode].offsets[kindAtomicETH]; off != 0 {
		return (*AtomicETH)(p.bytes[off:])
	}
	return nil
}

// AETH returns the AETH, nil if the opcode has none.
func (p Packet) AETH() *AETH {
	if off := opcodes[p.opcode].offsets[kindAETH]; off != 0 {
		return (*AETH)(p.bytes[off:])
	}
	return nil
}

// AtomicAckETH returns the AtomicAckETH, nil if the opcode has none.
func (p Packet) AtomicAckETH() *AtomicAckETH {
	if off := opcodes[p.opcode].offsets[kindAtomicAckETH]; off != 0 {
		return (*AtomicAckETH)(p.bytes[off:])
	}
	return nil
}

// ImmDt returns the immediate data, nil if the opcode has none.
func (p Packet) ImmDt() *ImmDt {
	if off := opcodes[p.opcode].offsets[kindImmDt]; off != 0 {
		return (*ImmDt)(p.bytes[off:])
	}
	return nil
}

// IETH returns the IETH, nil if the opcode has none.
func (p Packet) IETH() *IETH {
	if off := opcodes[p.opcode].offsets[kindIETH]; off != 0 {
		return (*IETH)(p.bytes[off:])
	}
	return nil
}
