// The opcode table: one row per opcode. A row has all that this package and the transport know
// of its opcode. opcode_table.go derives further tables from the rows.

package packet

import "github.com/rawverbs/rawverbs/verbs"

// opcodeRow has the properties of an opcode.
type opcodeRow struct {
	name      string
	transport Transport
	operation Operation
	place     Place
	headers   Headers // extended headers after the BTH
	payload   payloadRule
	direction direction
	serves    workRequests // the work requests that use this opcode, in their packets or in the response
}

// payloadRule is the rule for the length of a packet's payload.
type payloadRule uint8

const (
	noPayload  payloadRule = iota
	upToMTU                // up to the path MTU; 0 bytes only in an Only
	fullMTU                // exactly the path MTU
	oneWord                // the 8 bytes of an ATOMIC WRITE
	cnpPayload             // the 16 reserved bytes of a CNP
)

// direction is the side that sends an opcode.
type direction uint8

const (
	noDirection direction = iota // of an unknown opcode
	request                      // from requester to responder
	response                     // from responder to requester
	notice                       // about the path, from either side
)

// workRequests is a set of work request opcodes, one bit each.
type workRequests uint16

const (
	write       workRequests = 1 << verbs.OpRDMAWrite
	writeImm    workRequests = 1 << verbs.OpRDMAWriteWithImm
	send        workRequests = 1 << verbs.OpSend
	sendImm     workRequests = 1 << verbs.OpSendWithImm
	sendInv     workRequests = 1 << verbs.OpSendWithInvalidate
	read        workRequests = 1 << verbs.OpRDMARead
	compareSwap workRequests = 1 << verbs.OpAtomicCmpAndSwp
	fetchAdd    workRequests = 1 << verbs.OpAtomicFetchAndAdd
	flush       workRequests = 1 << verbs.OpFlush
	atomicWrite workRequests = 1 << verbs.OpAtomicWrite
)

// opcodeRows is indexed by opcode. An opcode without a row is unknown. RCAcknowledge serves no
// work request, because it acknowledges packets of any. A READ response of 0 bytes answers
// FLUSH and ATOMIC WRITE.
var opcodeRows = [256]opcodeRow{
	RCSendFirst:          {"RC_SEND_FIRST", RC, OpSend, First, 0, fullMTU, request, send | sendImm | sendInv},
	RCSendMiddle:         {"RC_SEND_MIDDLE", RC, OpSend, Middle, 0, fullMTU, request, send | sendImm | sendInv},
	RCSendLast:           {"RC_SEND_LAST", RC, OpSend, Last, 0, upToMTU, request, send},
	RCSendLastWithImm:    {"RC_SEND_LAST_WITH_IMMEDIATE", RC, OpSend, Last, HasImmDt, upToMTU, request, sendImm},
	RCSendOnly:           {"RC_SEND_ONLY", RC, OpSend, Only, 0, upToMTU, request, send},
	RCSendOnlyWithImm:    {"RC_SEND_ONLY_WITH_IMMEDIATE", RC, OpSend, Only, HasImmDt, upToMTU, request, sendImm},
	RCWriteFirst:         {"RC_RDMA_WRITE_FIRST", RC, OpWrite, First, HasRETH, fullMTU, request, write | writeImm},
	RCWriteMiddle:        {"RC_RDMA_WRITE_MIDDLE", RC, OpWrite, Middle, 0, fullMTU, request, write | writeImm},
	RCWriteLast:          {"RC_RDMA_WRITE_LAST", RC, OpWrite, Last, 0, upToMTU, request, write},
	RCWriteLastWithImm:   {"RC_RDMA_WRITE_LAST_WITH_IMMEDIATE", RC, OpWrite, Last, HasImmDt, upToMTU, request, writeImm},
	RCWriteOnly:          {"RC_RDMA_WRITE_ONLY", RC, OpWrite, Only, HasRETH, upToMTU, request, write},
	RCWriteOnlyWithImm:   {"RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", RC, OpWrite, Only, HasRETH | HasImmDt, upToMTU, request, writeImm},
	RCReadRequest:        {"RC_RDMA_READ_REQUEST", RC, OpReadRequest, Only, HasRETH, noPayload, request, read},
	RCReadResponseFirst:  {"RC_RDMA_READ_RESPONSE_FIRST", RC, OpReadResponse, First, HasAETH, fullMTU, response, read},
	RCReadResponseMiddle: {"RC_RDMA_READ_RESPONSE_MIDDLE", RC, OpReadResponse, Middle, 0, fullMTU, response, read},
	RCReadResponseLast:   {"RC_RDMA_READ_RESPONSE_LAST", RC, OpReadResponse, Last, HasAETH, upToMTU, response, read},
	RCReadResponseOnly:   {"RC_RDMA_READ_RESPONSE_ONLY", RC, OpReadResponse, Only, HasAETH, upToMTU, response, read | flush | atomicWrite},
	RCAcknowledge:        {"RC_ACKNOWLEDGE", RC, OpAcknowledge, Only, HasAETH, noPayload, response, 0},
	RCAtomicAcknowledge:  {"RC_ATOMIC_ACKNOWLEDGE", RC, OpAtomicAcknowledge, Only, HasAETH | HasAtomicAckETH, noPayload, response, compareSwap | fetchAdd},
	RCCompareSwap:        {"RC_COMPARE_SWAP", RC, OpCompareSwap, Only, HasAtomicETH, noPayload, request, compareSwap},
	RCFetchAdd:           {"RC_FETCH_ADD", RC, OpFetchAdd, Only, HasAtomicETH, noPayload, request, fetchAdd},
	RCSendLastWithInv:    {"RC_SEND_LAST_WITH_INVALIDATE", RC, OpSend, Last, HasIETH, upToMTU, request, sendInv},
	RCSendOnlyWithInv:    {"RC_SEND_ONLY_WITH_INVALIDATE", RC, OpSend, Only, HasIETH, upToMTU, request, sendInv},
	RCFlush:              {"RC_FLUSH", RC, OpFlush, Only, HasFETH | HasRETH, noPayload, request, flush},
	RCAtomicWrite:        {"RC_ATOMIC_WRITE", RC, OpAtomicWrite, Only, HasRETH, oneWord, request, atomicWrite},

	UCSendFirst:        {"UC_SEND_FIRST", UC, OpSend, First, 0, fullMTU, request, send | sendImm},
	UCSendMiddle:       {"UC_SEND_MIDDLE", UC, OpSend, Middle, 0, fullMTU, request, send | sendImm},
	UCSendLast:         {"UC_SEND_LAST", UC, OpSend, Last, 0, upToMTU, request, send},
	UCSendLastWithImm:  {"UC_SEND_LAST_WITH_IMMEDIATE", UC, OpSend, Last, HasImmDt, upToMTU, request, sendImm},
	UCSendOnly:         {"UC_SEND_ONLY", UC, OpSend, Only, 0, upToMTU, request, send},
	UCSendOnlyWithImm:  {"UC_SEND_ONLY_WITH_IMMEDIATE", UC, OpSend, Only, HasImmDt, upToMTU, request, sendImm},
	UCWriteFirst:       {"UC_RDMA_WRITE_FIRST", UC, OpWrite, First, HasRETH, fullMTU, request, write | writeImm},
	UCWriteMiddle:      {"UC_RDMA_WRITE_MIDDLE", UC, OpWrite, Middle, 0, fullMTU, request, write | writeImm},
	UCWriteLast:        {"UC_RDMA_WRITE_LAST", UC, OpWrite, Last, 0, upToMTU, request, write},
	UCWriteLastWithImm: {"UC_RDMA_WRITE_LAST_WITH_IMMEDIATE", UC, OpWrite, Last, HasImmDt, upToMTU, request, writeImm},
	UCWriteOnly:        {"UC_RDMA_WRITE_ONLY", UC, OpWrite, Only, HasRETH, upToMTU, request, write},
	UCWriteOnlyWithImm: {"UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE", UC, OpWrite, Only, HasRETH | HasImmDt, upToMTU, request, writeImm},

	UDSendOnly:             {"UD_SEND_ONLY", UD, OpSend, Only, HasDETH, upToMTU, request, send},
	UDSendOnlyWithImm:      {"UD_SEND_ONLY_WITH_IMMEDIATE", UD, OpSend, Only, HasDETH | HasImmDt, upToMTU, request, sendImm},
	CongestionNotification: {"CNP", CNP, OpCongestion, Only, 0, cnpPayload, notice, 0},
}
