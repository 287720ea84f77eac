//go:build !rdma

package run

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// The device gives the page only packets that the page keeps: the first ones of each client.
func TestThePageGetsFewPackets(t *testing.T) {
	dev := softtest.Open(t)
	o := &ServerOptions{HTTP: "0"}
	live, shown := o.watched(dev)
	var given atomic.Int64
	keep := shown.packet
	shown.packet = func(at time.Time, ip []byte) error {
		given.Add(1)
		return keep(at, ip)
	}
	packets, err := o.capture(dev, slog.New(slog.DiscardHandler), shown)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := packets.Close(); err != nil {
			t.Error(err)
		}
	}()

	unknown := newWriter(t, rc.Config{Device: dev})
	unknown.write(t, 10)
	if n := given.Load(); n != 0 {
		t.Errorf("%d packets of queue pairs that are not drawn; want 0", n)
	}
	drawn := newWriter(t, rc.Config{Device: dev, Logger: slog.New(live.Begin("server/1", "").Handler())})
	drawn.write(t, 300) // 4 packets each: request and ACK, sent and received
	few := given.Load()
	if few < 512 || few > 520 { // goroutines of the device may bring some at once
		t.Errorf("%d packets of a client; want 512", few)
	}
	drawn.write(t, 10)
	unknown.write(t, 10)
	if n := given.Load() - few; n != 0 {
		t.Errorf("%d packets more; want 0", n)
	}
}

// writer is a connection by which a client writes.
type writer struct {
	client *rc.Conn
	local  verbs.MRSlice
	window oob.Region
}

func newWriter(t *testing.T, cfg rc.Config) *writer {
	t.Helper()
	cfg.Access = verbs.AccessRemoteWrite
	client, server := connected(t, cfg)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	const size = 8
	mr, err := server.AllocMR("window", size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	local, err := client.AllocMR("source", size, verbs.AccessLocalWrite)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{client, local.Slice(0, size), oob.Region{Name: "window", Addr: mr.Addr(), RKey: mr.RKey(), Length: size}}
}

func (w *writer) write(t *testing.T, times int) {
	t.Helper()
	for range times {
		if err := w.client.Write(t.Context(), w.local, w.window, 0); err != nil {
			t.Fatal(err)
		}
	}
}
