// Tests of the opcode table against the same facts in another form.

package packet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// headerLengths has the length in bytes of BTH and extended headers of each opcode, added up
// from the figures of the specification.
var headerLengths = map[Opcode]int{
	0x00: 12, 0x01: 12, 0x02: 12, 0x03: 16, 0x04: 12, 0x05: 16,
	0x06: 28, 0x07: 12, 0x08: 12, 0x09: 16, 0x0a: 28, 0x0b: 32,
	0x0c: 28, 0x0d: 16, 0x0e: 12, 0x0f: 16, 0x10: 16,
	0x11: 16, 0x12: 24, 0x13: 40, 0x14: 40, 0x16: 16, 0x17: 16, 0x1c: 32, 0x1d: 28,
	0x20: 12, 0x21: 12, 0x22: 12, 0x23: 16, 0x24: 12, 0x25: 16,
	0x26: 28, 0x27: 12, 0x28: 12, 0x29: 16, 0x2a: 28, 0x2b: 32,
	0x64: 20, 0x65: 24, 0x81: 12,
}

func TestOpcodeTable(t *testing.T) {
	for i := range 256 {
		o := Opcode(i)
		want, known := headerLengths[o]
		if o.Known() != known || o.HeaderLen() != want {
			t.Errorf("%v: known %v, %d bytes of headers; want %v, %d", o, o.Known(), o.HeaderLen(), known, want)
		}
		if !known {
			if s := fmt.Sprintf("opcode 0x%02x", i); o.String() != s {
				t.Errorf("%q, want %q", o.String(), s)
			}
			if o.IsResponse() || opcodes[o] != (opcodeInfo{}) {
				t.Errorf("unknown opcode %v has properties", o)
			}
			continue
		}
		if want := strings.HasSuffix(o.String(), "_IMMEDIATE"); o.Has(HasImmDt) != want {
			t.Errorf("%v: ImmDt %v", o, o.Has(HasImmDt))
		}
		if want := strings.HasSuffix(o.String(), "_INVALIDATE"); o.Has(HasIETH) != want {
			t.Errorf("%v: IETH %v", o, o.Has(HasIETH))
		}
		if o != CongestionNotification && !strings.HasPrefix(o.String(), o.Transport().String()+"_") {
			t.Errorf("%v: transport %v", o, o.Transport())
		}
		for word, p := range map[string]Place{"_FIRST": First, "_MIDDLE": Middle, "_LAST": Last, "_ONLY": Only} {
			if strings.Contains(o.String(), word) && o.Place() != p {
				t.Errorf("%v: place %d", o, o.Place())
			}
		}
		if o.StartsMessage() != (o.Place() == First || o.Place() == Only) ||
			PlaceOf(o.StartsMessage(), o.EndsMessage()) != o.Place() {
			t.Errorf("%v: starts %v, ends %v, place %d", o, o.StartsMessage(), o.EndsMessage(), o.Place())
		}
		answer := o >= RCReadResponseFirst && o <= RCAtomicAcknowledge
		asks := opcodes[o].direction == request
		if o.IsResponse() != answer || asks == (answer || o == CongestionNotification) {
			t.Errorf("%v: request %v, response %v", o, asks, o.IsResponse())
		}
		bare := o == RCReadRequest || o >= RCAcknowledge && o <= RCFetchAdd || o == RCFlush
		if carries := opcodes[o].payload != noPayload; carries == bare {
			t.Errorf("%v: payload %v", o, carries)
		}
		if o.InRC() != (o.Transport() == RC) {
			t.Errorf("%v: in RC %v", o, o.InRC())
		}
	}
}

// TestRequest uses the table as a requester does: it asks for all opcodes of each work request
// over each transport.
func TestRequest(t *testing.T) {
	type packets [4]Opcode // only, first, middle, last
	want := map[Transport]map[verbs.Opcode]packets{
		RC: {
			verbs.OpSend:               {0x04, 0x00, 0x01, 0x02},
			verbs.OpSendWithImm:        {0x05, 0x00, 0x01, 0x03},
			verbs.OpSendWithInvalidate: {0x17, 0x00, 0x01, 0x16},
			verbs.OpRDMAWrite:          {0x0a, 0x06, 0x07, 0x08},
			verbs.OpRDMAWriteWithImm:   {0x0b, 0x06, 0x07, 0x09},
			verbs.OpRDMARead:           {0x0c},
			verbs.OpAtomicCmpAndSwp:    {0x13},
			verbs.OpAtomicFetchAndAdd:  {0x14},
			verbs.OpFlush:              {0x1c},
			verbs.OpAtomicWrite:        {0x1d},
		},
		UC: {
			verbs.OpSend:             {0x24, 0x20, 0x21, 0x22},
			verbs.OpSendWithImm:      {0x25, 0x20, 0x21, 0x23},
			verbs.OpRDMAWrite:        {0x2a, 0x26, 0x27, 0x28},
			verbs.OpRDMAWriteWithImm: {0x2b, 0x26, 0x27, 0x29},
		},
		UD: {
			verbs.OpSend:        {0x64},
			verbs.OpSendWithImm: {0x65},
		},
	}
	for tr := NoTransport; tr <= CNP; tr++ {
		for wr := range verbs.Opcode(100) {
			packets, served := want[tr][wr]
			if tr.Serves(wr) != served {
				t.Errorf("%v serves %v: %v, want %v", tr, wr, tr.Serves(wr), served)
			}
			for p := Only; served && p <= Last; p++ {
				if got := tr.Request(wr, p); got != packets[p] {
					t.Errorf("%v, %v, place %d: %v, want %v", tr, wr, p, got, packets[p])
				}
			}
		}
	}
}

// TestResponse uses the table as a responder does.
func TestResponse(t *testing.T) {
	want := map[Operation][4]Opcode{ // only, first, middle, last
		OpReadRequest: {0x10, 0x0d, 0x0e, 0x0f},
		OpCompareSwap: {0x12},
		OpFetchAdd:    {0x12},
		OpFlush:       {0x10},
		OpAtomicWrite: {0x10},
	}
	for o := NoOperation; o <= OpCongestion; o++ {
		packets, has := want[o]
		if o.HasResponse() != has {
			t.Errorf("%v has a response: %v", o, o.HasResponse())
		}
		for p := Only; has && p <= Last; p++ {
			if got := o.Response(p); got != packets[p] {
				t.Errorf("%v, place %d: %v, want %v", o, p, got, packets[p])
			}
		}
	}
	for wr := range verbs.Opcode(100) {
		read := wr == verbs.OpRDMARead
		atomic := wr == verbs.OpAtomicCmpAndSwp || wr == verbs.OpAtomicFetchAndAdd
		empty := wr == verbs.OpFlush || wr == verbs.OpAtomicWrite // answered by a READ response of 0 bytes
		if HasResponse(wr) != (read || atomic || empty) {
			t.Errorf("%v has a response: %v", wr, HasResponse(wr))
		}
		if RCReadResponseLast.Serves(wr) != read || RCReadResponseOnly.Serves(wr) != (read || empty) ||
			RCAtomicAcknowledge.Serves(wr) != atomic || RCAcknowledge.Serves(wr) {
			t.Errorf("%v: answered by the wrong opcode", wr)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		got  fmt.Stringer
		want string
	}{
		{RCSendFirst, "RC_SEND_FIRST"},
		{UCWriteOnlyWithImm, "UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE"},
		{UDSendOnly, "UD_SEND_ONLY"},
		{RCReadResponseOnly, "RC_RDMA_READ_RESPONSE_ONLY"},
		{CongestionNotification, "CNP"},
		{Opcode(0x9e), "opcode 0x9e"},
		{UD, "UD"}, {Transport(77), "transport 77"},
		{RCFlush, "RC_FLUSH"}, {RCAtomicWrite, "RC_ATOMIC_WRITE"},
		{OpFetchAdd, "FETCH_ADD"}, {OpFlush, "FLUSH"}, {OpAtomicWrite, "ATOMIC_WRITE"}, {Operation(77), "operation 77"},
		{MatchGSO, "GSO"}, {Match(77), "match 77"},
		{SyndromeACK, "ACK"},
		{RNRSyndrome(12), "RNR NAK 640µs"},
		{NAKPSNSequence, "NAK PSN sequence error"},
		{NAKInvalidRequest, "NAK invalid request"},
		{NAKRemoteAccess, "NAK remote access error"},
		{NAKRemoteOperational, "NAK remote operational error"},
		{NAKInvalidRDRequest, "NAK invalid RD request"},
		{Syndrome(0x65), "syndrome 0x65"}, {Syndrome(0xff), "syndrome 0xff"},
	} {
		if got := c.got.String(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := ParseError(77).Error(); got != "softroce/packet: unknown parse error" {
		t.Errorf("%q", got)
	}
}
