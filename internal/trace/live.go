// The ladder of a run that goes on: the client's events as they are logged, the server's as
// they arrive, merged by their times.

package trace

import (
	"cmp"
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
	handler
	steady

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

// source is how a ladder learns the server's events.
type source int

const (
	undecided source = iota // the server's hello is not read yet
	alone                   // not at all: only the client's events are drawn
	following               // from a feed
)

// maxHeld is how many of the client's events wait for the server's reports at most.
const maxHeld = 4096

// NewLadder draws a ladder to w. Colour is for terminals.
func NewLadder(w io.Writer, colour bool) *Ladder {
	out := &asyncWriter{out: w}
	l := &Ladder{steady: newSteady(), out: out, ladder: newLadder(out, colour)}
	l.handler = handler{enabled: above(slog.LevelDebug), handle: l.hold} // what a record of the run has
	return l
}

// hold takes one event of the client. It is drawn when it need not wait for the server's.
func (l *Ladder) hold(r slog.Record, attrs []slog.Attr) error {
	e := newEvent(l.at(r.Time), EndClient, r, attrs)
	l.mu.Lock()
	defer l.mu.Unlock()
	if isMessage(&e) {
		l.clock.client(&e)
	} else if stepOf(&e, true).kind == noStep {
		return nil
	}
	at := len(l.held)
	for at > 0 && e.Time.Before(l.held[at-1].Time) {
		at--
	}
	l.held = slices.Insert(l.held, at, e)
	l.advance()
	return l.ladder.err
}

// Device names the client's device in the head of the ladder.
func (l *Ladder) Device(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ladder.names[EndClient] = participant(EndClient, Part{Present: true, Device: name})
}

// Follow begins to draw the server's events, which Take gets.
func (l *Ladder) Follow() { l.decide(following) }

// Alone draws the client's events alone, because the server does not report its events.
func (l *Ladder) Alone() { l.decide(alone) }

func (l *Ladder) decide(s source) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.source = s
	l.advance()
}

// Take takes a note of the server's feed. It returns false if the server has sent so much that
// no more may be taken: no server of this program does that.
func (l *Ladder) Take(n oob.Note) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken += oob.HeaderSize + len(n.Data)
	switch more := l.taken <= maxNotes+int(time.Since(l.began).Seconds()*notesRate); {
	case !more && l.source == following:
		l.giveUp("it sends too many events")
		return false
	case l.source != following:
		return more
	}
	upTo, events, err := parseFeed(n.Data)
	if err != nil {
		l.giveUp("its events are not valid")
		return true
	}
	for i := range events {
		l.clock.server(&events[i])
	}
	for i := range events {
		e := &events[i]
		l.drawOlder(l.clock.toClient(e.Time))
		l.draw(e)
	}
	if !upTo.IsZero() {
		l.upTo = upTo
	}
	l.advance()
	return true
}

// giveUp draws why the server's events are no longer followed.
func (l *Ladder) giveUp(why string) {
	l.source = alone
	l.advance()
	l.ladder.draw(step{kind: noteStep, end: EndServer, text: why, failed: true})
}

// Finish draws what is left, and the end: why the run failed, "" if it succeeded, and the end
// that failed, "" if that is not known. It waits until everything is written. The error is that
// of a Write.
func (l *Ladder) Finish(end, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.source = alone
	l.advance()
	l.ladder.finish(end, why)
	return cmp.Or(l.ladder.err, l.out.flush())
}

// advance draws the client's events that need not wait for the server's.
func (l *Ladder) advance() {
	switch l.source {
	case undecided: // the server's events begin before its first message, and not much before
		for len(l.held) > 0 && !isReceived(&l.held[0]) {
			l.drawHeld()
		}
	case alone:
		for len(l.held) > 0 {
			l.drawHeld()
		}
	case following:
		if !l.upTo.IsZero() {
			l.drawOlder(l.clock.toClient(l.upTo))
		}
		for len(l.held) > maxHeld {
			l.drawHeld()
		}
	}
}

// drawOlder draws the client's events that are no later than a time of its clock.
func (l *Ladder) drawOlder(at time.Time) {
	for len(l.held) > 0 && !l.held[0].Time.After(at) {
		l.drawHeld()
	}
}

func (l *Ladder) drawHeld() {
	e := l.held[0]
	l.held = l.held[1:]
	l.draw(&e)
}

// draw draws an event. A message of the server that either end reports is drawn once.
func (l *Ladder) draw(e *Event) {
	number := 0
	switch fromServer := isMessage(e) && isReceived(e) != (e.End == EndServer); {
	case fromServer && e.End == EndServer:
		l.sent++
		number = l.sent
	case fromServer:
		l.received++
		number = l.received
	}
	if number > 0 {
		if number <= l.arrows {
			return
		}
		l.arrows = number
	}
	l.ladder.draw(stepOf(e, number == 0))
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
