//go:build !rdma

// Tests that need soft0.

package rnet

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce"
)

// TestCapture compares the packets of an echo and a Close with docs/rnet-protocol.md.
func TestCapture(t *testing.T) {
	here, there := devices(t)
	var mu sync.Mutex
	var seen []string
	stop, err := softroce.Capture(here, func(_ time.Time, ip []byte) error {
		const (
			bth          = 20 + 8 // IP and UDP
			writeOnlyImm = 0x0b
			imm          = bth + 12 + 16 // BTH and RETH
			length       = imm - 4       // the RETH's last field
		)
		if ip[bth] != writeOnlyImm {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("RDMA WRITE ONLY with immediate 0x%08x, %d bytes",
			binary.BigEndian.Uint32(ip[imm:]), binary.BigEndian.Uint32(ip[length:])))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	client, server := pair(t, Config{Device: here}, Config{Device: there})
	go func() { _, _ = io.CopyN(server, server, 5) }()
	if err := echoes(client, make([]byte, 5), 1); err != nil {
		t.Error(err)
	}
	end(client)
	end(server)
	if err := stop(); err != nil {
		t.Error(err)
	}
	page, err := os.ReadFile("../docs/rnet-protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for line := range strings.Lines(string(page)) {
		if _, message, ok := strings.Cut(strings.TrimSpace(line), "   RDMA"); ok {
			want = append(want, "RDMA"+message)
		}
	}
	got := strings.Join(seen, "\n")
	t.Log("\n" + got)
	if !strings.HasPrefix(got, strings.Join(want, "\n")) || len(want) != 3 {
		t.Errorf("the page has\n%s", strings.Join(want, "\n"))
	}
}
