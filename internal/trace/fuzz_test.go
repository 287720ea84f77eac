package trace

import (
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// FuzzFeed draws whatever a server may send: as notes while the run goes on, and as the events
// of a record, which may be of any origin. Nothing may panic, and a ladder has a bounded size.
func FuzzFeed(f *testing.F) {
	r := newLiveRun(0)
	r.feed = r.kept[1].Feed()
	r.message(EndClient, "hello")
	r.message(EndServer, "hello")
	r.move(r.server, "RESET→INIT")
	r.server.Info("post SEND", "event", "wr.posted", "verb", "ibv_post_send", "bytes", 5, "imm", 7)
	r.server.Info("completion", "event", "wr.completed", "wr_id", 1, "status", "IBV_WC_SUCCESS", "opcode", "IBV_WC_SEND")
	r.server.Info("drained", "event", "qp.drained", "flushed", 2)
	f.Add(r.feed.Notes()[0].Data)
	for _, attrs := range wrongMessages {
		f.Add([]byte("12\n" + wrongMessage(attrs)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newLiveRun(time.Hour)
		r.ladder.Follow()
		r.client.Info("m", "event", "oob.message", "sent", true, "message", "hello", "name", "")
		r.client.Info("m", "event", "oob.message", "sent", false, "message", "hello", "name", "")
		for range 2 {
			r.ladder.Take(oob.Note{Name: LadderNote, Data: data})
		}
		err := r.ladder.Finish(EndServer, string(data))
		if rows := bytes.Count(r.out.Bytes(), []byte("\n")); err != nil || rows > 4*maxEndRows+len(data) {
			t.Errorf("%v; %d rows", err, rows)
		}
		_, events, err := parseFeed(data)
		if err != nil {
			return
		}
		rec := &Record{Events: events}
		for _, present := range []bool{false, true} {
			rec.Client.Present, rec.Server.Present = present, present
			if err := rec.WriteLadder(io.Discard, true); err != nil {
				t.Error(err)
			}
		}
	})
}
