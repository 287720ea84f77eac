// This file is what follows from the rows of the opcode table, worked out once:
// where each header begins, and the table read the other way, from a work request
// to the opcodes of its packets.

package packet

import "github.com/rawverbs/rawverbs/verbs"

// opcodeInfo is a row and the layout of its packets.
type opcodeInfo struct {
	opcodeRow
	length  uint8              // bytes of BTH and extended headers
	offsets [headerKinds]uint8 // where each extended header begins, 0 for those the opcode has not
}

// possible says whether n bytes of payload follow the rule for some path MTU.
func (r payloadRule) possible(n int) bool {
	switch r {
	case noPayload:
		return n == 0
	case oneWord:
		return n == WordLen
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

	// WordLen is the payload of an ATOMIC WRITE.
	WordLen = 8
)

// The extended headers' numbers: their bits in Headers.
const (
	kindDETH = iota
	kindFETH
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
	kindFETH:         uint8(len(FETH{})),
	kindRETH:         uint8(len(RETH{})),
	kindAtomicETH:    uint8(len(AtomicETH{})),
	kindAETH:         uint8(len(AETH{})),
	kindAtomicAckETH: uint8(len(AtomicAckETH{})),
	kindImmDt:        uint8(len(ImmDt{})),
	kindIETH:         uint8(len(IETH{})),
}

// opcodes is the table that packets are parsed and built by, indexed by opcode.
var opcodes = func() (t [256]opcodeInfo) {
	for i, row := range opcodeRows {
		if row.transport == NoTransport {
			continue
		}
		info := opcodeInfo{opcodeRow: row, length: uint8(bthLen)}
		for k := range headerKinds {
			if row.headers>>k&1 != 0 {
				info.offsets[k] = info.length
				info.length += headerLens[k]
			}
		}
		t[i] = info
	}
	return t
}()

// workRequestOpcodes is the end of the opcodes that a work request can have.
const workRequestOpcodes = verbs.OpAtomicWrite + 1

// byPlace is the opcodes of one kind of message, indexed by Place.
type byPlace [Last + 1]Opcode

// reverse is the table read the other way.
type reverse struct {
	requests  [CNP + 1][workRequestOpcodes]byPlace // of a work request's packets, over a transport
	responses [OpCongestion + 1]byPlace            // of what answers an operation
	served    [CNP + 1]workRequests                // that a transport has opcodes for
	responded workRequests                         // that have a response of their own
}

var reversed = func() (t reverse) {
	for i, row := range opcodeRows {
		switch row.direction {
		case request:
			for wr := range workRequestOpcodes {
				if row.serves.has(wr) {
					t.requests[row.transport][wr][row.place] = Opcode(i)
				}
			}
			t.served[row.transport] |= row.serves
		case response:
			t.responded |= row.serves
			for _, asked := range opcodeRows {
				if asked.direction == request && asked.transport == row.transport && asked.serves&row.serves != 0 {
					t.responses[asked.operation][row.place] = Opcode(i)
				}
			}
		}
	}
	return t
}()

func (s workRequests) has(wr verbs.Opcode) bool { return s>>wr&1 != 0 }

// Serves says whether t can carry out the work request wr.
func (t Transport) Serves(wr verbs.Opcode) bool { return reversed.served[t].has(wr) }

// Request returns the opcode of the packet at place p of the work request wr,
// which t serves.
func (t Transport) Request(wr verbs.Opcode, p Place) Opcode { return reversed.requests[t][wr][p] }

// HasResponse says whether only a response of its own acknowledges the work request
// wr: READs, atomics, ATOMIC WRITE and FLUSH.
func HasResponse(wr verbs.Opcode) bool { return reversed.responded.has(wr) }

// HasResponse says whether only a response of its own acknowledges o: READ requests,
// atomics, ATOMIC WRITE and FLUSH.
func (o Operation) HasResponse() bool { return reversed.responses[o] != byPlace{} }

// Response returns the opcode of the packet at place p of the response to o, which
// HasResponse.
func (o Operation) Response(p Place) Opcode { return reversed.responses[o][p] }
