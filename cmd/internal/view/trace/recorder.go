// Keeping the events of one end while it runs.

package trace

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/internal/event"
)

// How much of a run is kept at each end, in bytes of its lines. A server keeps
// that much for each client that asks for it.
const (
	KeptByClient = 16 << 20
	KeptByServer = 1 << 20
)

// Recorder is a slog.Handler that keeps records of level Debug and above, up to a limit.
// Past the limit it keeps the beginning and the end of a run, because connections are made
// and taken down there. An event "record.gap" says how many records between them were
// dropped.
//
// Its times are by a clock that is never set: the host's clock at the beginning, plus what has passed since.
type Recorder struct {
	handler
	wall  time.Time // what the host's clock showed at the beginning
	began time.Time // the same moment, by the monotonic clock
	end   string
	limit int

	mu           sync.Mutex
	enc          *encoder
	over         bool       // Discard was called
	head         [][]byte   // lines
	tail         []tailLine // only once the head is full
	headSize     int
	tailSize     int
	full         bool // the head is
	dropped      int
	firstDropped time.Time
	lastDropped  time.Time
	watch        func(line []byte)
}

// tailLine is a line that may yet be dropped.
type tailLine struct {
	at   time.Time
	text []byte
}

// headShare of the limit is the beginning's, the rest the end's.
const headShare = 0.75

// NewRecorder keeps the events of an end, up to limit bytes.
func NewRecorder(end string, limit int) *Recorder {
	now := time.Now()
	rec := &Recorder{wall: now.Round(0).UTC(), began: now, end: end, limit: limit, enc: newEncoder()}
	rec.handler = handler{enabled: rec.keeps, handle: rec.keep}
	return rec
}

// Now is the time by the Recorder's clock.
func (rec *Recorder) Now() time.Time { return rec.at(time.Now()) }

// at is a time by the Recorder's clock; that of a record without a time is now.
func (rec *Recorder) at(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return rec.wall.Add(t.Sub(rec.began))
}

// keeps says that records of level Debug and above are kept, until Discard.
func (rec *Recorder) keeps(level slog.Level) bool {
	if level < slog.LevelDebug {
		return false
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return !rec.over
}

func (rec *Recorder) keep(r slog.Record, attrs []slog.Attr) error {
	e := newEvent(rec.at(r.Time), rec.end, r, attrs)
	rec.add(&e)
	return nil
}

func (rec *Recorder) add(e *Event) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if rec.over {
		return
	}
	line := bytes.Clone(rec.enc.line(e))
	if rec.watch != nil {
		rec.watch(line)
	}
	headLimit := int(float64(rec.limit) * headShare)
	if rec.full = rec.full || rec.headSize+len(line) > headLimit; !rec.full {
		rec.head = append(rec.head, line)
		rec.headSize += len(line)
		return
	}
	rec.tail = append(rec.tail, tailLine{e.Time, line})
	rec.tailSize += len(line)
	for rec.tailSize > rec.limit-headLimit {
		if rec.dropped++; rec.dropped == 1 {
			rec.firstDropped = rec.tail[0].at
		}
		rec.lastDropped = rec.tail[0].at
		rec.tailSize -= len(rec.tail[0].text)
		rec.tail[0] = tailLine{}
		rec.tail = rec.tail[1:]
	}
}

// Discard forgets everything and keeps nothing more.
func (rec *Recorder) Discard() {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.over = true
	rec.head, rec.tail, rec.dropped = nil, nil, 0
}

// Watch calls follow with the line of each event, also of those that are not kept. Call it before the first Handle.
// The program waits for follow, which must return at once and not log.
func (rec *Recorder) Watch(follow func(line []byte)) { rec.watch = follow }

// Since returns the lines of the events after the first n, and the number of all events. If some of these were not
// kept, a line says how many. Nothing may change the lines.
func (rec *Recorder) Since(n int) (lines [][]byte, all int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.since(n), len(rec.head) + rec.dropped + len(rec.tail)
}

// lines are the events kept so far, and how many had to be left out.
func (rec *Recorder) lines() (lines [][]byte, dropped int) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	return rec.since(0), rec.dropped
}

// since returns the lines after the first n events. The lock is held.
func (rec *Recorder) since(n int) [][]byte {
	head, tail := len(rec.head), len(rec.head)+rec.dropped // the numbers of the first events after the head and in the tail
	lines := slices.Clone(rec.head[min(n, head):])
	if dropped := tail - max(n, head); dropped > 0 {
		gap := Event{
			Time: rec.firstDropped, End: rec.end, Who: rec.end, Level: slog.LevelInfo, Event: event.RecordGap.Name(), Path: string(event.RecordGap.Path()),
			Message: fmt.Sprintf("%d events are left out here, because the record of this end has reached its limit of %d bytes", dropped, rec.limit),
			Attrs:   []slog.Attr{slog.Int("dropped", dropped)},
		}
		if n > head {
			gap.Time = rec.lastDropped
		}
		lines = append(lines, bytes.Clone(rec.enc.line(&gap)))
	}
	for _, t := range rec.tail[min(max(n-tail, 0), len(rec.tail)):] {
		lines = append(lines, t.text)
	}
	return lines
}

// Events returns the events kept so far, in the order in which they were logged, and how many had to be
// left out.
func (rec *Recorder) Events() (events []Event, dropped int, err error) {
	lines, dropped := rec.lines()
	for _, line := range lines {
		e, err := parseEvent(line)
		if err != nil {
			return nil, 0, err
		}
		events = append(events, e)
	}
	return events, dropped, nil
}
