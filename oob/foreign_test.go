package oob

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// structures are the formats of one structure, with a value and its bytes, written
// out by hand from the offsets.
var structures = map[string]struct {
	value  any
	hex    string
	encode func(dst []byte, value any) ([]byte, error)
	decode func([]byte) (any, error)
}{
	"rc-example": {
		RCExample{Addr: 0x7f1122334455, RKey: 0x01020304, QPN: 0x11, LID: 0x0a0b, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
		"00007f1122334455" + "01020304" + "00000011" + "0a0b" + "00000000000000000000ffff0a630001",
		func(dst []byte, v any) ([]byte, error) { return AppendRCExample(dst, v.(RCExample)) },
		func(b []byte) (any, error) { return DecodeRCExample(b) },
	},
	"rocev2-learn": {
		RoCEv2Learn{QPN: 0x123456, LID: 0x0a0b, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
		"56341200" + "0b0a" + "00000000000000000000ffff0a630001",
		func(dst []byte, v any) ([]byte, error) { return AppendRoCEv2Learn(dst, v.(RoCEv2Learn)) },
		func(b []byte) (any, error) { return DecodeRoCEv2Learn(b) },
	},
}

func TestStructuresOfOthers(t *testing.T) {
	for name, s := range structures {
		t.Run(name, func(t *testing.T) {
			got, err := s.encode([]byte("before"), s.value)
			if err != nil || hex.EncodeToString(got[len("before"):]) != s.hex {
				t.Fatalf("encoded %x, %v; want %s", got, err, s.hex)
			}
			golden := got[len("before"):]
			if value, err := s.decode(golden); err != nil || !reflect.DeepEqual(value, s.value) {
				t.Errorf("decoded %+v, %v", value, err)
			}
			zero := reflect.Zero(reflect.TypeOf(s.value)).Interface()
			if b, err := s.encode(nil, zero); err == nil {
				t.Errorf("a queue pair 0 was encoded: %x", b)
			}
			for what, test := range map[string]struct {
				data []byte
				want string
			}{
				"short":        {golden[:len(golden)-1], "bytes instead of"},
				"long":         {append(bytes.Clone(golden), 0), "bytes instead of"},
				"empty":        {nil, "0 bytes instead of"},
				"no QPN":       {make([]byte, len(golden)), "queue pair number 0x0"},
				"a large QPN":  {bytes.Repeat([]byte{0xee}, len(golden)), "queue pair number 0xeeeeeeee"},
				"HTTP":         {[]byte("HTTP/1.1 400 Bad Request\r\nServer: someone")[:len(golden)], "like an HTTP server"},
				"a pingpong":   {[]byte("0000:000011:8f3a2b:00000000000000000000ffff0a000001")[:len(golden)], "like ibv_rc_pingpong"},
				"this program": {append([]byte("RVO\n\x01\x01"), golden...)[:len(golden)], "native format"},
			} {
				_, err := s.decode(test.data)
				if err == nil || !errors.Is(err, ErrForeignPeer) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "; ") {
					t.Errorf("%s: %v; want %q and what to try", what, err, test.want)
				}
			}
		})
	}
}

// TestQPNsThatLookLikeAGreeting: little-endian, 0x316 begins as a TLS handshake does.
func TestQPNsThatLookLikeAGreeting(t *testing.T) {
	for _, qpn := range []uint32{0x314, 0x316, 0x10316, 0x30316, 0x362e36} {
		data, err := AppendRoCEv2Learn(nil, RoCEv2Learn{QPN: qpn})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := DecodeRoCEv2Learn(data); err != nil || m.QPN != qpn {
			t.Errorf("QPN %#x: %+v, %v", qpn, m, err)
		}
	}
}

func FuzzDecodeRCExample(f *testing.F)   { fuzzStructure(f, "rc-example") }
func FuzzDecodeRoCEv2Learn(f *testing.F) { fuzzStructure(f, "rocev2-learn") }

// fuzzStructure: what decodes must encode to the same bytes.
func fuzzStructure(f *testing.F, name string) {
	s := structures[name]
	golden, _ := hex.DecodeString(s.hex)
	f.Add(golden)
	f.Add([]byte("HTTP/1.1 200 OK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := s.decode(data)
		if err != nil {
			if strings.ContainsFunc(err.Error(), unprintable) {
				t.Errorf("unprintable: %q", err)
			}
			return
		}
		if again, err := s.encode(nil, value); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%x decoded to %+v and encoded to %x, %v", data, value, again, err)
		}
	})
}
