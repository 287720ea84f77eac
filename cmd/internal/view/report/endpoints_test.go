package report

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/dissect"
)

// TestManyQueuePairs checks that the time for a record grows with its queue pairs, and not with their square: 60,000
// took minutes.
func TestManyQueuePairs(t *testing.T) {
	const pairs = 60_000
	address := netip.MustParseAddr("10.0.0.1")
	record := &trace.Record{}
	add := func(kind event.Kind, qpn uint32, attrs ...slog.Attr) {
		record.Events = append(record.Events, trace.Event{
			Time: time.Unix(int64(len(record.Events)), 0), End: trace.EndClient, Event: kind.Name(), Verb: kind.Verb(), Message: "post SEND",
			Attrs: append(attrs, slog.String("qpn", hex24(qpn))),
		})
	}
	for n := range uint32(pairs) {
		add(event.PeerTuple, n, slog.String("side", "local"), slog.String("gid", address.String()), slog.Int("mtu", 1024))
		add(event.PeerTuple, n, slog.String("side", "remote"), slog.String("gid", "10.0.0.2"))
		add(event.SendPosted, n, slog.String("wr_id", "1"))
		add(event.WRCompleted, n, slog.String("wr_id", "1"), slog.String("opcode", "IBV_WC_SEND"))
	}
	made := make(chan *Report, 1)
	go func() {
		r := New(record)
		for n := range uint32(pairs) {
			if e := r.receiver(address, n); e == nil || e.end != trace.EndClient || e.peer == nil {
				t.Errorf("queue pair %d: %+v", n, e)
				break
			}
		}
		if done := len(r.completions()); done != pairs {
			t.Errorf("%d requests have completed", done)
		}
		made <- r
	}()
	if r := testkit.Receive(t, made, "report of many queue pairs"); len(r.endpoints.all) != 2*pairs || len(r.endpoints.all[0].requests) != 1 {
		t.Errorf("%d queue pairs", len(r.endpoints.all))
	}
}

func TestAgainAndProbes(t *testing.T) {
	to := &endpoint{}
	var c capture
	for _, p := range []struct {
		psn     uint32
		opcode  string
		payload int
	}{{7, "RC_RDMA_WRITE_LAST", 100}, {7, "RC_SEND_ONLY", 0}, {7, "RC_SEND_ONLY", 0}, {8, "RC_SEND_ONLY", 0}, {8, "RC_SEND_ONLY", 0}, {7, "RC_RDMA_WRITE_LAST", 100},
		{9, "RC_SEND_ONLY", 64}, {9, "RC_SEND_ONLY", 0}, {9, "RC_SEND_ONLY", 64},
		{10, "RC_RDMA_READ_REQUEST", 0}, {13, "RC_RDMA_WRITE_ONLY", 8}, {12, "RC_SEND_ONLY", 0}, {12, "RC_SEND_ONLY", 0}} { // 10 to 12 are the READ's
		c.packets = append(c.packets, &packet{Packet: dissect.Packet{PSN: p.psn, Opcode: p.opcode, Payload: p.payload}, to: to})
	}
	c.again()
	var got string
	for _, p := range c.packets {
		switch {
		case p.probe:
			got += "probe "
		case p.again:
			got += "again "
		default:
			got += "new "
		}
	}
	if want := "new probe probe new again again new probe again new new probe probe "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
