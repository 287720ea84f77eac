package pcap_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/pcap"
)

// TestFileFormat checks the bytes of a file, field by field.
func TestFileFormat(t *testing.T) {
	var file bytes.Buffer
	w, err := pcap.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	for _, packet := range []string{"\x45abc", "\x60"} {
		if err := w.Packet(time.Unix(0x01020304, 0x0a0b0c0d), []byte(packet)); err != nil {
			t.Fatal(err)
		}
	}
	want := "4d3cb2a1" + "0200" + "0400" + "00000000" + "00000000" + "ffff0000" + "65000000" +
		"04030201" + "0d0c0b0a" + "04000000" + "04000000" + "45616263" +
		"04030201" + "0d0c0b0a" + "01000000" + "01000000" + "60"
	if got := hex.EncodeToString(file.Bytes()); got != want {
		t.Errorf("the file is\n%s, want\n%s", got, want)
	}
}

func TestPacketTooLong(t *testing.T) {
	w, err := pcap.NewWriter(io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Packet(time.Now(), make([]byte, 65535)); err != nil {
		t.Error(err)
	}
	if err := w.Packet(time.Now(), make([]byte, 65536)); err == nil || !strings.Contains(err.Error(), "the limit is 65535") {
		t.Errorf("65536 bytes: %v", err)
	}
}

var errFull = errors.New("no space left")

// full is a Writer that fails after a number of writes.
type full struct{ after int }

func (f *full) Write(b []byte) (int, error) {
	if f.after--; f.after < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteErrorsAreReturned(t *testing.T) {
	if _, err := pcap.NewWriter(&full{}); !errors.Is(err, errFull) {
		t.Errorf("the file's header: %v", err)
	}
	w, err := pcap.NewWriter(&full{after: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Packet(time.Now(), nil); !errors.Is(err, errFull) {
		t.Errorf("a packet: %v", err)
	}
}
