// This file tests the opcode table against facts stated another way.

package packet

import (
	"fmt"
	"strings"
	"testing"
)

// headerLengths are BTH and extended headers in bytes, opcode by opcode, as a
// reader of the specification's figures adds them up.
var headerLengths = map[Opcode]int{
	0x00: 12, 0x01: 12, 0x02: 12, 0x03: 16, 0x04: 12, 0x05: 16,
	0x06: 28, 0x07: 12, 0x08: 12, 0x09: 16, 0x0a: 28, 0x0b: 32,
	0x0c: 28, 0x0d: 16, 0x0e: 12, 0x0f: 16, 0x10: 16,
	0x11: 16, 0x12: 24, 0x13: 40, 0x14: 40, 0x16: 16, 0x17: 16,
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
			if o.IsRequest() || o.IsResponse() || o.CarriesPayload() {
				t.Errorf("%v, not in use, says something of itself", o)
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
		if o.IsResponse() != answer || o.IsRequest() == (answer || o == CongestionNotification) {
			t.Errorf("%v: request %v, response %v", o, o.IsRequest(), o.IsResponse())
		}
		bare := o == RCReadRequest || o >= RCAcknowledge && o <= RCFetchAdd
		if o.CarriesPayload() == bare {
			t.Errorf("%v: payload %v", o, o.CarriesPayload())
		}
		// The table read the other way finds the opcode again.
		got, ok := OpcodeFor(o.Transport(), o.Operation(), o.Place(), o.Headers()&(HasImmDt|HasIETH))
		if !ok || got != o {
			t.Errorf("OpcodeFor gives %v, %v for %v", got, ok, o)
		}
	}
}

func TestOpcodeFor(t *testing.T) {
	for _, c := range []struct {
		t     Transport
		op    Operation
		p     Place
		extra Headers
		want  Opcode
		ok    bool
	}{
		{RC, OpSend, First, HasImmDt, RCSendFirst, true}, // immediate data come last
		{RC, OpWrite, Middle, HasImmDt, RCWriteMiddle, true},
		{RC, OpSend, Last, HasIETH, RCSendLastWithInv, true},
		{UC, OpWrite, Only, HasImmDt, UCWriteOnlyWithImm, true},
		{UC, OpSend, Only, HasIETH, 0, false},
		{UC, OpReadRequest, Only, 0, 0, false},
		{RC, OpWrite, Only, HasIETH, 0, false},
		{RC, OpSend, Only, HasIETH | HasImmDt, 0, false},
		{UD, OpSend, First, 0, 0, false},
		{NoTransport, NoOperation, Only, 0, 0, false},
		{9, OpSend, Only, 0, 0, false},
		{RC, 99, Only, 0, 0, false},
		{RC, OpSend, 9, 0, 0, false},
	} {
		if got, ok := OpcodeFor(c.t, c.op, c.p, c.extra); got != c.want || ok != c.ok {
			t.Errorf("OpcodeFor(%v, %v, %d, %#x) = %v, %v; want %v, %v", c.t, c.op, c.p, c.extra, got, ok, c.want, c.ok)
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
		{OpFetchAdd, "FETCH_ADD"}, {Operation(77), "operation 77"},
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
