// Tables derived from the rows of opcode_rows.go: the offsets of the headers, and the reverse
// table from work requests to the opcodes of their packets.

package packet

import "github.com/rawverbs/rawverbs/verbs"

// opcodeInfo is a row and the layout of its packets.
type opcodeInfo struct {
	opcodeRow
	length  uint8              // bytes of BTH and extended headers
	offsets [headerKinds]uint8 // where each extended header begins; 0 if the opcode does not have it
}

// possible reports whether the rule allows n bytes of payload for some path MTU.
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

	// WordLen is the length of the payload of an ATOMIC WRITE.
	WordLen = 8
)

// The numbers of the extended headers, which are their bits in Headers.
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

// opcodes is the table that Parse and Build use, indexed by opcode.
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

// workRequestOpcodes is one more than the largest opcode of a work request.
const workRequestOpcodes = verbs.OpAtomicWrite + 1

// byPlace has the opcodes of a message's packets, indexed by Place.
type byPlace [Last + 1]Opcode

// reverse is the reverse table.
type reverse struct {
	requests  [CNP + 1][workRequestOpcodes]byPlace // opcodes of a work request's packets, by transport
	responses [OpCongestion + 1]byPlace            // opcodes of the response to an operation
	served    [CNP + 1]workRequests                // work requests that a transport supports
	responded workRequests                         // work requests that have their own response
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

// Serves reports whether t supports work request wr.
func (t Transport) Serves(wr verbs.Opcode) bool { return reversed.served[t].has(wr) }

// Request returns the opcode of the packet at place p of work request wr, which t must serve.
func (t Transport) Request(wr verbs.Opcode, p Place) Opcode { return reversed.requests[t][wr][p] }

// HasResponse reports whether only its own response acknowledges work request wr. This is so
// for READ, atomics, ATOMIC WRITE and FLUSH.
func HasResponse(wr verbs.Opcode) bool { return reversed.responded.has(wr) }

// HasResponse reports whether only its own response acknowledges o. This is so for READ
// requests, atomics, ATOMIC WRITE and FLUSH.
func (o Operation) HasResponse() bool { return reversed.responses[o] != byPlace{} }

// Response returns the opcode of the packet at place p of the response to o. HasResponse must
// be true for o.
func (o Operation) Response(p Place) Opcode { return reversed.responses[o][p] }
