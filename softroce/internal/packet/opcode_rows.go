// This file is the opcode table: one row per opcode. All that the package and the
// transport know of an opcode stands in its row, and opcode_table.go derives the
// rest from the rows.

package packet

import "github.com/rawverbs/rawverbs/verbs"

// opcodeRow is what a row says of its opcode.
type opcodeRow struct {
	name      string
	transport Transport
	operation Operation
	place     Place
	headers   Headers // that follow the BTH
	payload   payloadRule
	direction direction
	serves    workRequests // whose packets have the opcode, or are answered by it
}

// payloadRule is what a packet of an opcode may carry.
type payloadRule uint8

const (
	noPayload  payloadRule = iota
	upToMTU                // up to the path MTU; none at all only in an Only
	fullMTU                // the path MTU, exactly
	oneWord                // the 8 bytes of an ATOMIC WRITE
	cnpPayload             // the 16 reserved bytes of a CNP
)

// direction is which side of a connection sends an opcode.
type direction uint8

const (
	noDirection direction = iota // of an opcode not in use
	request                      // from requester to responder
	response                     // from responder to requester
	notice                       // about the path, from either
)

// workRequests is a set of the opcodes that send work requests have, as bits.
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

// opcodeRows is indexed by opcode; an opcode without a row is not in use.
// RCAcknowledge serves no work request of its own: it acknowledges packets,
// whatever they are part of. A READ response of no bytes answers FLUSH and ATOMIC
// WRITE.
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
