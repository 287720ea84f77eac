// Package peertest checks the codecs of foreign programs that send one packed structure.
package peertest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Structure is a value of type T and its bytes, written by hand from the offsets.
type Structure[T any] struct {
	Value  T
	Hex    string
	Encode func(dst []byte, value T) ([]byte, error)
	Decode func([]byte) (T, error)
}

// Check checks both directions, and that the decoder names other programs.
func (s Structure[T]) Check(t *testing.T) {
	got, err := s.Encode([]byte("before"), s.Value)
	if err != nil || hex.EncodeToString(got[len("before"):]) != s.Hex {
		t.Fatalf("encoded %x, %v; want %s", got, err, s.Hex)
	}
	golden := got[len("before"):]
	if value, err := s.Decode(golden); err != nil || !reflect.DeepEqual(value, s.Value) {
		t.Errorf("decoded %+v, %v", value, err)
	}
	var zero T
	if b, err := s.Encode(nil, zero); err == nil {
		t.Errorf("queue pair 0 was encoded: %x", b)
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
		_, err := s.Decode(test.data)
		if err == nil || !errors.Is(err, oob.ErrForeignPeer) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v; want %q and what to try", what, err, test.want)
		}
	}
}

// Fuzz checks that what decodes encodes to the same bytes, and that errors are printable.
func (s Structure[T]) Fuzz(f *testing.F) {
	golden, _ := hex.DecodeString(s.Hex)
	f.Add(golden)
	f.Add([]byte("HTTP/1.1 200 OK"))
	f.Fuzz(func(t *testing.T, data []byte) {
		value, err := s.Decode(data)
		if err != nil {
			if strings.ContainsFunc(err.Error(), Unprintable) {
				t.Errorf("unprintable: %q", err)
			}
			return
		}
		if again, err := s.Encode(nil, value); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%x decoded to %+v and encoded to %x, %v", data, value, again, err)
		}
	})
}

// Unprintable reports runes that no error may contain: they move a terminal's cursor or change
// the direction of its text.
func Unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}
