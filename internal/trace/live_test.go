package trace

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// liveRun is a client and a server whose clock is ahead, and what the client has drawn.
type liveRun struct {
	out            bytes.Buffer
	ladder         *Ladder
	kept           [2]*Keeper // the client's, to compare, and the server's
	client, server *slog.Logger
	feed           *Feed
}

func newLiveRun(ahead time.Duration) *liveRun {
	r := &liveRun{}
	r.ladder = NewLadder(io.Discard, false)
	r.ladder.ladder.w = &r.out // without waiting, to compare what is drawn
	r.kept = [2]*Keeper{NewKeeper(EndClient, KeptByClient), NewKeeper(EndServer, KeptByServer)}
	r.kept[1].wall = r.kept[1].wall.Add(ahead)
	r.client = slog.New(slog.NewMultiHandler(r.ladder, r.kept[0])).With("who", EndClient)
	r.server = slog.New(r.kept[1]).With("who", "server/1")
	return r
}

// message sends a message; the server's takes its events along. Each step of a run takes a
// millisecond.
func (r *liveRun) message(from, name string) {
	sender, receiver := r.client, r.server
	if from == EndServer {
		sender, receiver = r.server, r.client
		r.report()
	}
	said := func(log *slog.Logger, sent bool) {
		time.Sleep(time.Millisecond)
		log.Info("m", "event", "oob.message", "verb", "tcp", "path", "slow", "sent", sent, "message", name, "name", "")
	}
	said(sender, true)
	said(receiver, false)
}

// report passes what the server has to report, after it was asked.
func (r *liveRun) report() {
	if r.feed == nil {
		return
	}
	for _, n := range r.feed.Notes() {
		r.ladder.Take(n)
	}
}

func (r *liveRun) move(log *slog.Logger, to string) {
	time.Sleep(time.Millisecond)
	log.Info(to, "event", "qp.transition", "verb", "ibv_modify_qp", "path", "slow")
}

// record is the record of the run, with the server's times as they were.
func (r *liveRun) record(t *testing.T, ahead time.Duration) string {
	t.Helper()
	events, _, err := r.kept[1].Events()
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		events[i].Time = events[i].Time.Add(-ahead)
	}
	rec, err := NewRecord(Header{}, r.kept[0], &Fetched{Part: Part{Present: true}, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return ladderOf(t, rec)
}

// script is a run with a job between two barriers.
func (r *liveRun) script() {
	r.message(EndClient, "hello")
	r.message(EndServer, "hello")
	r.move(r.client, "RESET→INIT")
	r.ladder.Follow()
	r.feed = r.kept[1].Feed()
	r.move(r.server, "RESET→INIT")
	r.message(EndClient, "endpoints")
	r.message(EndServer, "endpoints")
	r.move(r.client, "INIT→RTR")
	r.move(r.server, "INIT→RTR")
	r.move(r.client, "RTR→RTS")
	r.move(r.server, "RTR→RTS")
	r.message(EndServer, "ready")
	r.message(EndClient, "ready")
	for n := range 3 {
		r.move(r.client, "RTS→SQD")
		r.move(r.server, fmt.Sprint("move ", n))
		r.move(r.client, "SQD→RTS")
	}
	r.report()
}

// TestLiveLadder checks that the ladder of a run is that of its record, however far apart the
// clocks are, and that it is drawn while the run goes on.
func TestLiveLadder(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, time.Microsecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newLiveRun(ahead)
			r.script()
			drawn := r.out.String()
			if want := strings.TrimSuffix(r.record(t, ahead), "done\n"); drawn != want {
				t.Errorf("%v ahead: drawn while the run goes on:\n%s\nwant\n%s", ahead, drawn, want)
			}
			r.move(r.server, "RTS→ERR")
			r.move(r.client, "RTS→ERR")
			if got := r.out.String(); got != drawn {
				t.Errorf("drawn before the server has reported that there was nothing before:\n%s", strings.TrimPrefix(got, drawn))
			}
			r.report()
			if err := r.ladder.Finish("", ""); err != nil || r.out.String() != r.record(t, ahead) {
				t.Errorf("%v; drawn at the end:\n%s\nwant\n%s", err, &r.out, r.record(t, ahead))
			}
		})
	}
}

// TestLiveLadderAlone checks that the client's events are drawn at once without a server that
// reports, and both directions of its messages.
func TestLiveLadderAlone(t *testing.T) {
	r := newLiveRun(0)
	r.message(EndClient, "hello")
	if got := r.out.String(); !strings.Contains(got, "-- hello --") {
		t.Errorf("drawn before there is a server:\n%s", got)
	}
	r.message(EndServer, "hello")
	if got := r.out.String(); strings.Contains(got, "<") {
		t.Errorf("drawn before it is known whether the server reports:\n%s", got)
	}
	r.ladder.Alone()
	r.move(r.client, "RESET→INIT")
	if got := r.out.String(); !strings.Contains(got, "<-------") || !strings.HasSuffix(got, "RESET→INIT"+lifeline+strings.Repeat(" ", innerWidth)+lifeline+"\n") {
		t.Errorf("drawn:\n%s", got)
	}
}

// TestLiveLadderOfAServerThatDies checks that what the client knows is drawn at the end: all
// that the server had reported, and the messages that arrived without their report.
func TestLiveLadderOfAServerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiveRun(time.Hour)
		r.script()
		r.move(r.client, "RTS→ERR")
		r.message(EndServer, "error")
		if err := r.ladder.Finish(EndServer, "it says why"); err != nil {
			t.Fatal(err)
		}
		got := r.out.String()
		checkLadder(t, got)
		want := `   RTS→ERR│                                                          │
          │<------------------------------------------------ error --│
          │                                                        ╳ │
the server failed: it says why
`
		if !strings.HasSuffix(got, want) || strings.Count(got, "hello") != 2 {
			t.Errorf("%s\nwant the end\n%s", got, want)
		}
	})
}

// TestLiveLadderOfAWrongServer checks that reports that are not valid neither stop the ladder
// nor are drawn, and that a server that never reports makes it hold a bounded number of events.
func TestLiveLadderOfAWrongServer(t *testing.T) {
	for _, data := range []string{"x", "-1\n", "12\n{}\n", "12\nx\n", "99999999999999999999\n", "\n"} {
		r := newLiveRun(0)
		r.ladder.Follow()
		r.move(r.client, "RESET→INIT")
		r.ladder.Take(oob.Note{Name: LadderNote, Data: []byte(data)})
		r.ladder.Take(oob.Note{Name: LadderNote, Data: []byte(data)})
		if got := r.out.String(); !strings.Contains(got, "RESET→INIT") || strings.Count(got, "its events are not valid") != 1 {
			t.Errorf("%q: %s", data, got)
		}
	}
	for _, attrs := range wrongMessages {
		r := newLiveRun(0)
		r.ladder.Follow()
		r.ladder.Take(oob.Note{Name: LadderNote, Data: []byte("12\n" + wrongMessage(attrs))})
		if err := r.ladder.Finish("", ""); err != nil || strings.ContainsAny(r.out.String(), "<>") || strings.Contains(r.out.String(), "not valid") {
			t.Errorf("%s: %v; drawn:\n%s", attrs, err, &r.out)
		}
	}
	r := newLiveRun(0)
	r.ladder.Follow()
	for n := range 2*maxHeld + 1 {
		r.client.Info(fmt.Sprint(n), "event", "qp.transition")
	}
	if n := len(r.ladder.held); n != maxHeld || !strings.Contains(r.out.String(), "         0"+lifeline) {
		t.Errorf("%d held; drawn:\n%s", n, &r.out)
	}
}

// stopped is a terminal that its user has stopped.
type stopped struct {
	io.Writer
	goOn <-chan struct{}
}

func (s stopped) Write(p []byte) (int, error) {
	<-s.goOn
	return s.Writer.Write(p)
}

// TestLadderOnAStoppedTerminal checks that neither the job nor the connection's reader waits for
// the terminal, that the end of the run does, and that nothing is lost.
func TestLadderOnAStoppedTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiveRun(0)
		goOn := make(chan struct{})
		var out bytes.Buffer
		r.ladder = NewLadder(stopped{&out, goOn}, false)
		r.client = slog.New(slog.NewMultiHandler(r.ladder, r.kept[0])).With("who", EndClient)
		time.AfterFunc(time.Hour, func() { close(goOn) })
		began := time.Now()
		r.script() // the server's events are all reported
		if took := time.Since(began); took > time.Minute {
			t.Errorf("the job waited for %v", took)
		}
		if err := r.ladder.Finish("", ""); err != nil || out.String() != r.record(t, 0) {
			t.Errorf("%v; drawn:\n%s\nwant\n%s", err, &out, r.record(t, 0))
		}
		if took := time.Since(began); took < time.Hour {
			t.Errorf("the end came after %v", took)
		}
	})
}

// TestFloodOfNotes checks that a client takes a bounded number of notes at once, and that a
// server may go on for a day with the notes of this program.
func TestFloodOfNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		valid := append([]byte("12\n"), wrongMessage("{}")...)
		for _, data := range [][]byte{nil, []byte("x"), valid, make([]byte, oob.MaxNoteData)} {
			r := newLiveRun(0)
			r.ladder.Follow()
			n := 0
			for r.ladder.Take(oob.Note{Name: LadderNote, Data: data}) {
				if n++; n > 1<<20 {
					t.Fatalf("it takes all notes of %d bytes", len(data))
				}
			}
			if n*(len(data)+oob.HeaderSize) < 2*maxFeed {
				t.Errorf("it takes %d notes of %d bytes", n, len(data))
			}
		}
		r := newLiveRun(0)
		r.ladder.Follow()
		r.feed = r.kept[1].Feed()
		for range 24 * time.Hour / FeedInterval {
			time.Sleep(FeedInterval)
			if n := r.feed.Notes(); len(n) != 1 || !r.ladder.Take(n[0]) {
				t.Fatalf("%d notes", len(n))
			}
		}
	})
}

// wrongMessages are the attributes of messages over TCP that do not say whether they were sent.
var wrongMessages = []string{`{}`, `{"sent":"yes"}`, `{"sent":1}`, `{"sent":{"a":true}}`, `{"sent":{}}`, `{"message":"hello","name":""}`}

// wrongMessage returns the line of a message with some attributes.
func wrongMessage(attrs string) string {
	return `{"time":"2026-01-02T15:04:05Z","level":"INFO","msg":"m","end":"server","who":"server/1","event":"oob.message","attrs":` + attrs + "}\n"
}

// TestBounds checks that the quickest messages decide how far apart the clocks are taken to be.
func TestBounds(t *testing.T) {
	const ahead = time.Hour
	began := time.Unix(1e9, 0)
	message := func(sent bool, name string, at time.Duration) *Event {
		return &Event{Event: "oob.message", Time: began.Add(at), Attrs: []slog.Attr{slog.Bool("sent", sent), slog.String("message", name)}}
	}
	var b bounds
	check := func(least, most time.Duration) {
		t.Helper()
		if off := b.toClient(began.Add(ahead)).Sub(began); off < least || off > most {
			t.Errorf("wrong by %v", off)
		}
	}
	b.server(message(false, "unknown", ahead)) // the client has not logged it yet
	check(ahead, ahead)
	b = bounds{}
	for i, delay := range []time.Duration{80 * time.Millisecond, 2 * time.Millisecond, 60 * time.Millisecond} { // from the client
		at := time.Duration(i) * time.Second
		b.client(message(true, "a", at))
		b.server(message(false, "a", at+delay+ahead))
	}
	check(-2*time.Millisecond, 0)
	for i, delay := range []time.Duration{80 * time.Millisecond, 4 * time.Millisecond, 60 * time.Millisecond} { // to the client
		at := time.Duration(i) * time.Second
		b.client(message(false, "b", at+delay))
		b.server(message(true, "b", at+ahead))
	}
	check(time.Millisecond, time.Millisecond) // (4 - 2) / 2
	b.client(message(true, "c", 0))
	b.server(message(false, "d", 0)) // another message: one of the ends has not logged one
	check(time.Millisecond, time.Millisecond)
}

// TestLateEvent checks that an event that was logged late is drawn in its place, if the events
// behind it still wait.
func TestLateEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLiveRun(0)
		r.ladder.Follow()
		at := time.Now()
		r.move(r.client, "second")
		late := slog.NewRecord(at, slog.LevelInfo, "first", 0)
		late.Add("event", "qp.transition")
		if err := r.ladder.Handle(t.Context(), late); err != nil {
			t.Fatal(err)
		}
		if err := r.ladder.Finish("", ""); err != nil {
			t.Fatal(err)
		}
		if got := r.out.String(); strings.Index(got, "first") > strings.Index(got, "second") {
			t.Error(got)
		}
	})
}

// TestFeedInPieces checks that events that do not fit into a note go into several, in order, and
// that only the last says up to when the events are complete.
func TestFeedInPieces(t *testing.T) {
	keeper := NewKeeper(EndServer, KeptByServer)
	log := slog.New(keeper).With("who", "server/1")
	text := strings.Repeat("x", 1000)
	for n := range 100 {
		log.Info(fmt.Sprint(n, text), "event", "qp.transition")
		log.Info("not drawn", "event", "message.sent", "text", text)
		log.Debug("not drawn", "event", "qp.dump")
	}
	feed := keeper.Feed()
	for n := range 100 {
		log.Info(fmt.Sprint(100+n, text), "event", "qp.transition")
	}
	long := []any{"event", "qp.transition"}
	for n := range pieceSize / maxText { // each text is short enough to be kept
		long = append(long, fmt.Sprint(n), strings.Repeat("y", maxText))
	}
	log.Info("too long for a note", long...)
	notes := feed.Notes()
	if len(notes) < 4 {
		t.Errorf("%d notes", len(notes))
	}
	var got []string
	for i, n := range notes {
		upTo, events, err := parseFeed(n.Data)
		if err != nil || upTo.IsZero() != (i < len(notes)-1) || len(n.Data) > oob.MaxNoteData || n.Name != LadderNote {
			t.Errorf("note %d: %v, %v, %d bytes", i, err, upTo, len(n.Data))
		}
		for _, e := range events {
			got = append(got, strings.TrimSuffix(e.Message, text))
		}
	}
	var want []string
	for n := range 200 {
		want = append(want, fmt.Sprint(n))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if notes := feed.Notes(); len(notes) != 1 || bytes.Count(notes[0].Data, []byte("\n")) != 1 {
		t.Errorf("then %q", notes)
	}
}

// TestFeedIsBounded checks that a feed has a bounded number of bytes in a whole run.
func TestFeedIsBounded(t *testing.T) {
	keeper := NewKeeper(EndServer, KeptByServer)
	feed := keeper.Feed()
	log := slog.New(keeper)
	for range 2 * maxFeed / 1000 {
		log.Info(strings.Repeat("x", 1000), "event", "qp.transition")
	}
	if n := len(feed.rest); n > maxFeed || n < maxFeed/2 {
		t.Errorf("%d bytes", n)
	}
	feed.Notes()
	log.Info("x", "event", "qp.transition")
	log.Info(strings.Repeat("x", 1000), "event", "qp.transition")
	if n := len(feed.rest); n > 1000 {
		t.Errorf("then %d bytes", n)
	}
}

// TestFeedHasTheEnd checks that posts and completions leave room for the end of a run.
func TestFeedHasTheEnd(t *testing.T) {
	keeper := NewKeeper(EndServer, KeptByServer)
	feed := keeper.Feed()
	log := slog.New(keeper)
	for range 2 * maxFeed / 1000 {
		log.Info("post "+strings.Repeat("x", 1000), "event", "wr.posted")
	}
	log.Info("the end"+strings.Repeat("x", 2000), "event", "qp.transition")
	if !bytes.Contains(feed.rest, []byte("the end")) {
		t.Errorf("%d bytes, without the end", len(feed.rest))
	}
}

// TestLiveLadderSideBySide gives the race detector both ends at once.
func TestLiveLadderSideBySide(t *testing.T) {
	l := NewLadder(io.Discard, true)
	keeper := NewKeeper(EndServer, KeptByServer)
	feed := keeper.Feed()
	l.Follow()
	var ends sync.WaitGroup
	for _, log := range []*slog.Logger{slog.New(l), slog.New(l).With("a", 1), slog.New(keeper)} {
		ends.Go(func() {
			for range 100 {
				log.Info("m", "event", "oob.message", "sent", true, "message", "hello")
				log.Info("RTR→RTS", "event", "qp.transition")
			}
		})
	}
	ends.Go(func() {
		for range 100 {
			for _, n := range feed.Notes() {
				l.Take(n)
			}
		}
	})
	ends.Wait()
	if err := l.Finish("", ""); err != nil || len(l.held) > 0 {
		t.Errorf("%v; %d are left", err, len(l.held))
	}
}
