// This file is the opcode table: one line an opcode, and what is worked out
// from the lines once.

package packet

// opcodeInfo is all the package knows of one opcode.
type opcodeInfo struct {
	name      string
	transport Transport
	operation Operation
	place     Place
	headers   Headers
	payload   payloadRule
	response  bool

	// Worked out by newOpcodeTable: bytes of BTH and extended headers, and
	// where each extended header begins, 0 for those the opcode has not.
	length  uint8
	offsets [headerKinds]uint8
}

// payloadRule is what a packet of an opcode may carry.
type payloadRule uint8

const (
	noPayload  payloadRule = iota
	upToMTU                // up to the path MTU; none at all only in an Only
	fullMTU                // the path MTU, exactly
	cnpPayload             // the 16 reserved bytes of a CNP
)

// possible says whether n bytes of payload follow the rule for some path MTU.
func (r payloadRule) possible(n int) bool {
	switch r {
	case noPayload:
		return n == 0
	case cnpPayload:
		return n == cnpLen
	}
	return n <= MaxPayload
}

// Lengths in bytes.
const (
	bthLen  = len(BTH{})
	icrcLen = 4
	cnpLen  = 16
)

// The extended headers' numbers: their bits in Headers.
const (
	kindDETH = iota
	kindRETH
	kindAtomicETH
	kindAETH
	kindAtomicAckETH
	kindImmDt
	kindIETH
	headerKinds
)

var headerLens = [headerKinds]uint8{
	kindDETH:         uint8(len(DETH{})),
	kindRETH:         uint8(len(RETH{})),
	kindAtomicETH:    uint8(len(AtomicETH{})),
	kindAETH:         uint8(len(AETH{})),
	kindAtomicAckETH: uint8(len(AtomicAckETH{})),
	kindImmDt:        uint8(len(ImmDt{})),
	kindIETH:         uint8(len(IETH{})),
}

// opcodes is indexed by opcode; a line with NoTransport is an opcode not in use.
var opcodes = newOpcodeTable()

func newOpcodeTable() (t [256]opcodeInfo) {
	// The operations that RC and UC share: the same low five bits.
	for _, c := range []struct {
		transport Transport
		prefix    string
		base      Opcode
	}{{RC, "RC_", 0x00}, {UC, "UC_", 0x20}} {
		line := func(o Opcode, name string, op Operation, p Place, h Headers, pay payloadRule) {
			t[c.base+o] = opcodeInfo{name: c.prefix + name, transport: c.transport,
				operation: op, place: p, headers: h, payload: pay}
		}
		line(0x00, "SEND_FIRST", OpSend, First, 0, fullMTU)
		line(0x01, "SEND_MIDDLE", OpSend, Middle, 0, fullMTU)
		line(0x02, "SEND_LAST", OpSend, Last, 0, upToMTU)
		line(0x03, "SEND_LAST_WITH_IMMEDIATE", OpSend, Last, HasImmDt, upToMTU)
		line(0x04, "SEND_ONLY", OpSend, Only, 0, upToMTU)
		line(0x05, "SEND_ONLY_WITH_IMMEDIATE", OpSend, Only, HasImmDt, upToMTU)
		line(0x06, "RDMA_WRITE_FIRST", OpWrite, First, HasRETH, fullMTU)
		line(0x07, "RDMA_WRITE_MIDDLE", OpWrite, Middle, 0, fullMTU)
		line(0x08, "RDMA_WRITE_LAST", OpWrite, Last, 0, upToMTU)
		line(0x09, "RDMA_WRITE_LAST_WITH_IMMEDIATE", OpWrite, Last, HasImmDt, upToMTU)
		line(0x0a, "RDMA_WRITE_ONLY", OpWrite, Only, HasRETH, upToMTU)
		line(0x0b, "RDMA_WRITE_ONLY_WITH_IMMEDIATE", OpWrite, Only, HasRETH|HasImmDt, upToMTU)
	}

	line := func(o Opcode, name string, tr Transport, op Operation, p Place, h Headers, pay payloadRule) {
		t[o] = opcodeInfo{name: name, transport: tr, operation: op, place: p, headers: h, payload: pay}
	}
	line(0x0c, "RC_RDMA_READ_REQUEST", RC, OpReadRequest, Only, HasRETH, noPayload)
	line(0x0d, "RC_RDMA_READ_RESPONSE_FIRST", RC, OpReadResponse, First, HasAETH, fullMTU)
	line(0x0e, "RC_RDMA_READ_RESPONSE_MIDDLE", RC, OpReadResponse, Middle, 0, fullMTU)
	line(0x0f, "RC_RDMA_READ_RESPONSE_LAST", RC, OpReadResponse, Last, HasAETH, upToMTU)
	line(0x10, "RC_RDMA_READ_RESPONSE_ONLY", RC, OpReadResponse, Only, HasAETH, upToMTU)
	line(0x11, "RC_ACKNOWLEDGE", RC, OpAcknowledge, Only, HasAETH, noPayload)
	line(0x12, "RC_ATOMIC_ACKNOWLEDGE", RC, OpAtomicAcknowledge, Only, HasAETH|HasAtomicAckETH, noPayload)
	line(0x13, "RC_COMPARE_SWAP", RC, OpCompareSwap, Only, HasAtomicETH, noPayload)
	line(0x14, "RC_FETCH_ADD", RC, OpFetchAdd, Only, HasAtomicETH, noPayload)
	line(0x16, "RC_SEND_LAST_WITH_INVALIDATE", RC, OpSend, Last, HasIETH, upToMTU)
	line(0x17, "RC_SEND_ONLY_WITH_INVALIDATE", RC, OpSend, Only, HasIETH, upToMTU)
	line(0x64, "UD_SEND_ONLY", UD, OpSend, Only, HasDETH, upToMTU)
	line(0x65, "UD_SEND_ONLY_WITH_IMMEDIATE", UD, OpSend, Only, HasDETH|HasImmDt, upToMTU)
	line(0x81, "CNP", CNP, OpCongestion, Only, 0, cnpPayload)

	for i := range t {
		o := &t[i]
		if o.transport == NoTransport {
			continue
		}
		switch o.operation {
		case OpReadResponse, OpAcknowledge, OpAtomicAcknowledge:
			o.response = true
		}
		o.length = uint8(bthLen)
		for k := range headerKinds {
			if o.headers>>k&1 != 0 {
				o.offsets[k] = o.length
				o.length += headerLens[k]
			}
		}
	}
	return t
}

// extraHeaders are the headers that a sender chooses, and OpcodeFor tells
// opcodes apart by.
var extraHeaders = [...]Headers{0, HasImmDt, HasIETH}

// byMessage is the opcode table read the other way: by transport, operation,
// place and index in extraHeaders.
var byMessage = func() (m [CNP + 1][OpCongestion + 1][Last + 1][len(extraHeaders)]struct {
	opcode Opcode
	ok     bool
}) {
	for i, o := range opcodes {
		if o.transport == NoTransport {
			continue
		}
		for x, extra := range extraHeaders {
			if o.headers&(HasImmDt|HasIETH) == extra {
				e := &m[o.transport][o.operation][o.place][x]
				e.opcode, e.ok = Opcode(i), true
			}
		}
	}
	return m
}()

// OpcodeFor returns the opcode of a packet at place p of a message of operation
// op. extra is HasImmDt or HasIETH for a message that carries one, else 0; it
// counts only in the packet that ends the message. ok is false where there is
// no such opcode, as for a READ over UC.
func OpcodeFor(t Transport, op Operation, p Place, extra Headers) (o Opcode, ok bool) {
	if t > CNP || op > OpCongestion || p > Last {
		return 0, false
	}
	x := 0
	if p == Last || p == Only {
		switch extra {
		case 0:
		case HasImmDt:
			x = 1
		case HasIETH:
			x = 2
		default:
			return 0, false
		}
	}
	e := byMessage[t][op][p][x]
	return e.opcode, e.ok
}
