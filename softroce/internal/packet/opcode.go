// Opcodes of the BTH, and their properties. The properties come from opcode_rows.go.

package packet

import (
	"fmt"

	"github.com/rawverbs/rawverbs/verbs"
)

// Opcode is the OpCode field of a BTH: the transport in its top three bits, the operation in
// the other five.
type Opcode uint8

// The known opcodes. Those of reliable datagrams and XRC are not supported.
const (
	RCSendFirst            Opcode = 0x00
	RCSendMiddle           Opcode = 0x01
	RCSendLast             Opcode = 0x02
	RCSendLastWithImm      Opcode = 0x03
	RCSendOnly             Opcode = 0x04
	RCSendOnlyWithImm      Opcode = 0x05
	RCWriteFirst           Opcode = 0x06
	RCWriteMiddle          Opcode = 0x07
	RCWriteLast            Opcode = 0x08
	RCWriteLastWithImm     Opcode = 0x09
	RCWriteOnly            Opcode = 0x0a
	RCWriteOnlyWithImm     Opcode = 0x0b
	RCReadRequest          Opcode = 0x0c
	RCReadResponseFirst    Opcode = 0x0d
	RCReadResponseMiddle   Opcode = 0x0e
	RCReadResponseLast     Opcode = 0x0f
	RCReadResponseOnly     Opcode = 0x10
	RCAcknowledge          Opcode = 0x11
	RCAtomicAcknowledge    Opcode = 0x12
	RCCompareSwap          Opcode = 0x13
	RCFetchAdd             Opcode = 0x14
	RCSendLastWithInv      Opcode = 0x16
	RCSendOnlyWithInv      Opcode = 0x17
	RCFlush                Opcode = 0x1c
	RCAtomicWrite          Opcode = 0x1d
	UCSendFirst            Opcode = 0x20
	UCSendMiddle           Opcode = 0x21
	UCSendLast             Opcode = 0x22
	UCSendLastWithImm      Opcode = 0x23
	UCSendOnly             Opcode = 0x24
	UCSendOnlyWithImm      Opcode = 0x25
	UCWriteFirst           Opcode = 0x26
	UCWriteMiddle          Opcode = 0x27
	UCWriteLast            Opcode = 0x28
	UCWriteLastWithImm     Opcode = 0x29
	UCWriteOnly            Opcode = 0x2a
	UCWriteOnlyWithImm     Opcode = 0x2b
	UDSendOnly             Opcode = 0x64
	UDSendOnlyWithImm      Opcode = 0x65
	CongestionNotification Opcode = 0x81
)

// Transport is the transport that an opcode belongs to.
type Transport uint8

// The transports. NoTransport is the transport of an unknown opcode.
const (
	NoTransport Transport = iota
	RC
	UC
	UD
	CNP
)

var transportNames = [...]string{"none", "RC", "UC", "UD", "CNP"}

func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return fmt.Sprintf("transport %d", uint8(t))
}

// Operation is the operation of an opcode, regardless of its transport and its place in the
// message.
type Operation uint8

// The operations. NoOperation is the operation of an unknown opcode.
const (
	NoOperation Operation = iota
	OpSend
	OpWrite
	OpReadRequest
	OpReadResponse
	OpAcknowledge
	OpAtomicAcknowledge
	OpCompareSwap
	OpFetchAdd
	OpFlush
	OpAtomicWrite
	OpCongestion
)

var operationNames = [...]string{
	"none", "SEND", "RDMA_WRITE", "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE",
	"ACKNOWLEDGE", "ATOMIC_ACKNOWLEDGE", "COMPARE_SWAP", "FETCH_ADD", "FLUSH", "ATOMIC_WRITE", "CNP",
}

func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return fmt.Sprintf("operation %d", uint8(o))
}

// Place is the place of a packet in its message.
type Place uint8

// A message is one Only packet, or a First, any number of Middle packets and a Last. Packets
// that are always alone are Only: READ requests, atomics, ATOMIC WRITE, FLUSH and acknowledges.
const (
	Only Place = iota
	First
	Middle
	Last
)

// PlaceOf returns the place of a packet that starts or does not start its message, and ends or
// does not end it.
func PlaceOf(starts, ends bool) Place {
	switch {
	case starts && ends:
		return Only
	case starts:
		return First
	case ends:
		return Last
	}
	return Middle
}

// Headers is a set of extended transport headers.
type Headers uint8

// The extended transport headers, in their order after the BTH.
const (
	HasDETH         Headers = 1 << kindDETH
	HasFETH         Headers = 1 << kindFETH
	HasRETH         Headers = 1 << kindRETH
	HasAtomicETH    Headers = 1 << kindAtomicETH
	HasAETH         Headers = 1 << kindAETH
	HasAtomicAckETH Headers = 1 << kindAtomicAckETH
	HasImmDt        Headers = 1 << kindImmDt
	HasIETH         Headers = 1 << kindIETH
)

// String returns the opcode's name in the specification, such as
// "RC_RDMA_WRITE_LAST_WITH_IMMEDIATE", or "opcode 0x.." for an unknown one.
func (o Opcode) String() string {
	if o.Known() {
		return opcodes[o].name
	}
	return fmt.Sprintf("opcode 0x%02x", uint8(o))
}

// Known reports whether o is one of the constants of this package.
func (o Opcode) Known() bool { return opcodes[o].transport != NoTransport }

// Transport returns the transport that o belongs to.
func (o Opcode) Transport() Transport { return opcodes[o].transport }

// InRC reports whether o is one of RC's 32 numbers, known or reserved.
func (o Opcode) InRC() bool { return o>>5 == 0 }

// Operation returns the operation of o.
func (o Opcode) Operation() Operation { return opcodes[o].operation }

// Place returns the place of a packet of o in its message.
func (o Opcode) Place() Place { return opcodes[o].place }

// StartsMessage reports whether o is a First or an Only.
func (o Opcode) StartsMessage() bool { p := opcodes[o].place; return p == First || p == Only }

// EndsMessage reports whether o is a Last or an Only.
func (o Opcode) EndsMessage() bool { p := opcodes[o].place; return p == Last || p == Only }

// Has reports whether all headers of h follow the BTH.
func (o Opcode) Has(h Headers) bool { return opcodes[o].headers&h == h }

// IsResponse reports whether o is sent from responder to requester: responses with data and
// acknowledges.
func (o Opcode) IsResponse() bool { return opcodes[o].direction == response }

// Serves reports whether a packet of o is part of work request wr or of its response.
func (o Opcode) Serves(wr verbs.Opcode) bool { return opcodes[o].serves.has(wr) }

// HeaderLen returns the length of the BTH and the extended headers in bytes, or 0 for an
// unknown opcode.
func (o Opcode) HeaderLen() int { return int(opcodes[o].length) }
