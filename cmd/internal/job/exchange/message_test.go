package exchange

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
)

func TestMessageLayout(t *testing.T) {
	for _, test := range []struct {
		m    message
		want string
	}{
		{message{Type: msgMR, Addr: 0x1122334455667788, RKey: 0xaabbccdd, Length: 4096, Text: digest{5, 0x01020304}},
			"52565831" + "01000000" + "1122334455667788" + "aabbccdd" + "01020304" + "0000000000001000" + "0000000000000005"},
		{message{Type: msgDone, Text: digestOf([]byte("123456789"))}, // CRC-32C's check value
			"52565831" + "02000000" + "0000000000000000" + "00000000" + "e3069283" + "0000000000000000" + "0000000000000009"},
	} {
		b := test.m.appendTo(nil)
		if got := hex.EncodeToString(b); got != test.want {
			t.Errorf("%+v is\n%s, want\n%s", test.m, got, test.want)
		}
		if m, err := readMessage(b); err != nil || m != test.m {
			t.Errorf("read back: %+v, %v", m, err)
		}
	}
}

func TestReadMessageRefuses(t *testing.T) {
	mr := message{Type: msgMR, Addr: 4096, Length: 100, Text: digest{100, 1}}
	for name, test := range map[string]struct {
		m      message
		change func([]byte) []byte
		want   string
	}{
		"empty":            {mr, func([]byte) []byte { return nil }, "0 bytes"},
		"short":            {mr, func(b []byte) []byte { return b[:39] }, "39 bytes"},
		"long":             {mr, func(b []byte) []byte { return append(b, 0) }, "41 bytes"},
		"magic":            {mr, func(b []byte) []byte { b[3] = '2'; return b }, `"RVX2"`},
		"type":             {message{Type: 3}, nil, "message type 3 is neither"},
		"type 0":           {message{}, nil, "message type 0"},
		"reserved":         {mr, func(b []byte) []byte { b[6] = 1; return b }, "bytes 5 to 7"},
		"region in DONE":   {message{Type: msgDone, RKey: 1}, nil, "names a region"},
		"beyond the end":   {message{Type: msgMR, Addr: 1, Length: math.MaxUint64}, nil, "beyond the last address"},
		"text too long":    {message{Type: msgMR, Length: 9, Text: digest{Bytes: 10}}, nil, "a text of 10 bytes lies in a region of 9"},
		"everything is ff": {mr, func(b []byte) []byte { return bytes.Repeat([]byte{0xff}, messageSize) }, `\xff`},
	} {
		b := test.m.appendTo(nil)
		if test.change != nil {
			b = test.change(b)
		}
		if _, err := readMessage(b); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "; try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzReadMessage checks that readMessage either refuses bytes, or returns a message that
// encodes to the same bytes and is within the bounds that it promises.
func FuzzReadMessage(f *testing.F) {
	f.Add(message{Type: msgMR, Addr: 4096, RKey: 7, Length: 100, Text: digest{100, 1}}.appendTo(nil))
	f.Add(message{Type: msgDone, Text: digest{math.MaxUint64, 1}}.appendTo(nil))
	f.Add([]byte("RVX1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := readMessage(b)
		if err != nil {
			return
		}
		if !bytes.Equal(m.appendTo(nil), b) {
			t.Errorf("%x reads as %+v, which is written %x", b, m, m.appendTo(nil))
		}
		if m.Type == msgMR && (m.Addr+m.Length < m.Addr || m.Text.Bytes > m.Length) {
			t.Errorf("%+v", m)
		}
	})
}
