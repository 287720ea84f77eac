// The ladder of a run that goes on: the client's events as they are logged, the server's as
// they arrive, merged by their times.

package trace

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/oob"
)

// Ladder is a slog.Handler at a client that draws a run as a ladder while it goes on. If it
// follows the server's events, one of the client's is drawn when the server has reported all
// of its own that are older. So the job never waits for the ladder, but the ladder for the
// server's next report. Only Finish waits until the rows are written.
type Ladder struct {
	live  *live
	attrs []slog.Attr // from WithAttrs
}

// source is how a ladder learns the server's events.
type source int

const (
	undecided source = iota // the server's hello is not read yet
	alone                   // not at all: only the client's events are drawn
	following               // from a feed
)

// maxHeld is how many of the client's events wait for the server's reports at most.
const maxHeld = 4096

// live is shared by all handlers made from one.
type live struct {
	wall  time.Time // what the host's clock showed at the beginning
	began time.Time // the same moment, by the monotonic clock

	out *asyncWriter // the ladder's

	mu     sync.Mutex
	ladder *ladder
	source source
	clock  bounds
	held   []Event   // of the client, in the order of their times
	upTo   time.Time // by the server's clock: its older events are all here
	taken  int       // bytes of notes

	received int // messages of the server that the client has received
	sent     int // messages that the server has reported as sent
	arrows   int // messages of the server that are drawn: each once, where it is seen first
}

// NewLadder draws a ladder to w. Colour is for terminals.
func NewLadder(w io.Writer, colour bool) *Ladder {
	now := time.Now()
	out := &asyncWriter{out: w}
	return &Ladder{live: &live{wall: now.Round(0).UTC(), began: now, out: out, ladder: newLadder(out, colour)}}
}

// Enabled reports whether records of a level are drawn: those that a record of the run has.
func (l *Ladder) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelDebug }

// WithAttrs makes a handler whose records all have attrs.
func (l *Ladder) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Ladder{live: l.live, attrs: append(slices.Clip(l.attrs), attrs...)}
}

// WithGroup returns l: a ladder does not show nested names.
func (l *Ladder) WithGroup(string) slog.Handler { return l }

// Handle takes one event of the client.
func (l *Ladder) Handle(_ context.Context, r slog.Record) error {
	attrs := slices.Clone(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	v := l.live
	e := newEvent(v.wall.Add(r.Time.Sub(v.began)), EndClient, r, attrs)
	v.mu.Lock()
	defer v.mu.Unlock()
	if isMessage(&e) {
		v.clock.client(&e)
	} else if stepOf(&e, true).kind == noStep {
		return nil
	}
	at := len(v.held)
	for at > 0 && e.Time.Before(v.held[at-1].Time) {
		at--
	}
	v.held = slices.Insert(v.held, at, e)
	v.advance()
	return v.ladder.err
}

// Device names the client's device in the head of the ladder.
func (l *Ladder) Device(name string) {
	l.live.mu.Lock()
	defer l.live.mu.Unlock()
	l.live.ladder.names[EndClient] = participant(EndClient, Part{Present: true, Device: name})
}

// Follow begins to draw the server's events, which Take gets.
func (l *Ladder) Follow() { l.live.decide(following) }

// Alone draws the client's events alone, because the server does not report its events.
func (l *Ladder) Alone() { l.live.decide(alone) }

func (v *live) decide(s source) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.source = s
	v.advance()
}

// Take takes a note of the server's feed. It returns false if the server has sent so much that
// no more may be taken: no server of this program does that.
func (l *Ladder) Take(n oob.Note) bool {
	v := l.live
	v.mu.Lock()
	defer v.mu.Unlock()
	v.taken += oob.HeaderSize + len(n.Data)
	switch more := v.taken <= maxNotes+int(time.Since(v.began).Seconds()*notesRate); {
	case !more && v.source == following:
		v.giveUp("it sends too many events")
		return false
	case v.source != following:
		return more
	}
	upTo, events, err := parseFeed(n.Data)
	if err != nil {
		v.giveUp("its events are not valid")
		return true
	}
	for i := range events {
		v.clock.server(&events[i])
	}
	for i := range events {
		e := &events[i]
		v.drawOlder(v.clock.toClient(e.Time))
		v.draw(e)
	}
	if !upTo.IsZero() {
		v.upTo = upTo
	}
	v.advance()
	return true
}

// giveUp draws why the server's events are no longer followed.
func (v *live) giveUp(why string) {
	v.source = alone
	v.advance()
	v.ladder.draw(step{kind: noteStep, end: EndServer, text: why, failed: true})
}

// Finish draws what is left, and the end: why the run failed, "" if it succeeded, and the end
// that failed, "" if that is not known. It waits until everything is written. The error is that
// of a Write.
func (l *Ladder) Finish(end, why string) error {
	v := l.live
	v.mu.Lock()
	defer v.mu.Unlock()
	v.source = alone
	v.advance()
	v.ladder.finish(end, why)
	return cmp.Or(v.ladder.err, v.out.flush())
}

// advance draws the client's events that need not wait for the server's.
func (v *live) advance() {
	switch v.source {
	case undecided: // the server's events begin before its first message, and not much before
		for len(v.held) > 0 && !isReceived(&v.held[0]) {
			v.drawHeld()
		}
	case alone:
		for len(v.held) > 0 {
			v.drawHeld()
		}
	case following:
		if !v.upTo.IsZero() {
			v.drawOlder(v.clock.toClient(v.upTo))
		}
		for len(v.held) > maxHeld {
			v.drawHeld()
		}
	}
}

// drawOlder draws the client's events that are no later than a time of its clock.
func (v *live) drawOlder(at time.Time) {
	for len(v.held) > 0 && !v.held[0].Time.After(at) {
		v.drawHeld()
	}
}

func (v *live) drawHeld() {
	e := v.held[0]
	v.held = v.held[1:]
	v.draw(&e)
}

// draw draws an event. A message of the server that either end reports is drawn once.
func (v *live) draw(e *Event) {
	number := 0
	switch fromServer := isMessage(e) && isReceived(e) != (e.End == EndServer); {
	case fromServer && e.End == EndServer:
		v.sent++
		number = v.sent
	case fromServer:
		v.received++
		number = v.received
	}
	if number > 0 {
		if number <= v.arrows {
			return
		}
		v.arrows = number
	}
	v.ladder.draw(stepOf(e, number == 0))
}

// bounds are how far the server's clock may be ahead of the client's. Each message between the
// ends is a bound, because it is received after it is sent.
type bounds struct {
	sent, received             []Event // messages, at the client
	serverSent, serverReceived int     // messages that the server has reported
	low, high                  time.Duration
	hasLow, hasHigh            bool
}

// client takes a message that the client has sent or received.
func (b *bounds) client(e *Event) {
	if isReceived(e) {
		b.received = append(b.received, *e)
	} else {
		b.sent = append(b.sent, *e)
	}
}

// server takes an event of the server.
func (b *bounds) server(e *Event) {
	switch {
	case !isMessage(e):
	case isReceived(e):
		b.serverReceived++
		if ahead, ok := aheadOf(b.sent, b.serverReceived, e); ok && (!b.hasHigh || ahead < b.high) {
			b.high, b.hasHigh = ahead, true
		}
	default:
		b.serverSent++
		if ahead, ok := aheadOf(b.received, b.serverSent, e); ok && (!b.hasLow || ahead > b.low) {
			b.low, b.hasLow = ahead, true
		}
	}
}

// aheadOf returns how much later the server's report of the nth message is than the client's.
// It returns false if the client's nth message is missing or is another one.
func aheadOf(messages []Event, n int, e *Event) (time.Duration, bool) {
	if n > len(messages) {
		return 0, false
	}
	m := &messages[n-1]
	same := m.text("message") == e.text("message") && m.text("name") == e.text("name")
	return e.Time.Sub(m.Time), same
}

// toClient returns a time of the server's clock by the client's.
func (b *bounds) toClient(t time.Time) time.Time {
	offset := (b.low + b.high) / 2
	switch {
	case !b.hasLow:
		offset = b.high
	case !b.hasHigh:
		offset = b.low
	}
	return t.Add(-offset)
}
