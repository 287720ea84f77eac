// Whole packets: Parse for a received packet, Build for one to send. Both return a Packet.

package packet

// MaxPayload is the largest path MTU, and therefore the largest payload, in bytes.
const MaxPayload = 4096

// MaxPacket is the length in bytes, BTH to ICRC, of the longest packet that Parse accepts and
// Build makes: an RDMA WRITE ONLY with immediate.
const MaxPacket = bthLen + len(RETH{}) + len(ImmDt{}) + MaxPayload + icrcLen

// Packet is a view over a packet, BTH to ICRC, in the buffer that was passed to Parse or Build.
// It is small: pass it by value. It is valid as long as the buffer. The zero Packet is not
// valid.
type Packet struct {
	bytes   []byte
	payload int32 // bytes of payload, without the pad
	opcode  Opcode
}

// Parse returns a view over a packet. datagram is the whole payload of a UDP datagram. The
// error is a ParseError. If Parse fails but HasBTH returns true, a responder may have to
// answer: BTH and Opcode of the returned Packet are valid, and nothing else.
//
// Parse checks only what it can see in the packet. The caller must check the ICRC
// (Flow.Verify), the P_Key, the queue pair, and the payload against the path MTU
// (Packet.PayloadFits), because the answer may be a NAK. Parse ignores the values of reserved
// bits and of pad bytes.
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

// Len returns the length in bytes, BTH to ICRC, of a packet of opcode o with payload bytes of
// payload.
func Len(o Opcode, payload int) int {
	return o.HeaderLen() + payload + padLen(payload) + icrcLen
}

func padLen(payload int) int { return -payload & 3 }

// Build writes the headers of a packet of opcode o with payload bytes of payload to the start
// of buf. It sets OpCode, PadCnt and P_Key (to DefaultPKey), and clears all other bytes except
// the payload, which it does not touch. The caller then sets header fields through the views,
// fills Payload, and seals the packet with Flow.Seal.
//
// Build returns ErrOpcode, ErrPayload, or, if buf is shorter than Len, ErrTruncated.
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

// Opcode returns the packet's opcode. It is known if Parse or Build returned no error.
func (p Packet) Opcode() Opcode { return p.opcode }

// Payload returns the payload without its pad. Its capacity equals its length.
func (p Packet) Payload() []byte {
	off := int(opcodes[p.opcode].length)
	end := off + int(p.payload)
	return p.bytes[off:end:end]
}

// PayloadFits reports whether the payload's length is right for the packet's opcode and a path
// MTU of mtu bytes: First and Middle have exactly mtu, Last 1 to mtu, Only 0 to mtu. A
// responder answers a request that does not fit with NAKInvalidRequest.
func (p Packet) PayloadFits(mtu int) bool {
	n := int(p.payload)
	switch opcodes[p.opcode].payload {
	case fullMTU:
		return n == mtu
	case upToMTU:
		return n <= mtu && (n > 0 || opcodes[p.opcode].place == Only)
	}
	return true // Parse and Build have checked the others
}

// HasBTH reports whether the packet has a BTH of version 0.
func (p Packet) HasBTH() bool { return len(p.bytes) > 0 }

// BTH returns the base transport header.
func (p Packet) BTH() *BTH { return (*BTH)(p.bytes) }

// DETH returns the DETH, or nil if the opcode has none.
func (p Packet) DETH() *DETH {
	if off := opcodes[p.opcode].offsets[kindDETH]; off != 0 {
		return (*DETH)(p.bytes[off:])
	}
	return nil
}

// FETH returns the FETH, or nil if the opcode has none.
func (p Packet) FETH() *FETH {
	if off := opcodes[p.opcode].offsets[kindFETH]; off != 0 {
		return (*FETH)(p.bytes[off:])
	}
	return nil
}

// RETH returns the RETH, or nil if the opcode has none.
func (p Packet) RETH() *RETH {
	if off := opcodes[p.opcode].offsets[kindRETH]; off != 0 {
		return (*RETH)(p.bytes[off:])
	}
	return nil
}

// AtomicETH returns the AtomicETH, or nil if the opcode has none.
func (p Packet) AtomicETH() *AtomicETH {
	if off := opcodes[p.opcode].offsets[kindAtomicETH]; off != 0 {
		return (*AtomicETH)(p.bytes[off:])
	}
	return nil
}

// AETH returns the AETH, or nil if the opcode has none.
func (p Packet) AETH() *AETH {
	if off := opcodes[p.opcode].offsets[kindAETH]; off != 0 {
		return (*AETH)(p.bytes[off:])
	}
	return nil
}

// AtomicAckETH returns the AtomicAckETH, or nil if the opcode has none.
func (p Packet) AtomicAckETH() *AtomicAckETH {
	if off := opcodes[p.opcode].offsets[kindAtomicAckETH]; off != 0 {
		return (*AtomicAckETH)(p.bytes[off:])
	}
	return nil
}

// ImmDt returns the immediate data, or nil if the opcode has none.
func (p Packet) ImmDt() *ImmDt {
	if off := opcodes[p.opcode].offsets[kindImmDt]; off != 0 {
		return (*ImmDt)(p.bytes[off:])
	}
	return nil
}

// IETH returns the IETH, or nil if the opcode has none.
func (p Packet) IETH() *IETH {
	if off := opcodes[p.opcode].offsets[kindIETH]; off != 0 {
		return (*IETH)(p.bytes[off:])
	}
	return nil
}
