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

// Keeper is a slog.Handler that keeps records of level Debug and above, up to a limit.
// Past the limit it keeps the beginning and the end of a run, because connections are made
// and taken down there. An event "record.gap" says how many records between them were
// dropped.
//
// Its times are by a clock that is never set: the host's clock at the beginning, plus what has passed since.
type Keeper struct {
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

// NewKeeper keeps the events of an end, up to limit bytes.
func NewKeeper(end string, limit int) *Keeper {
	now := time.Now()
	k := &Keeper{wall: now.Round(0).UTC(), began: now, end: end, limit: limit, enc: newEncoder()}
	k.handler = handler{enabled: k.keeps, handle: k.keep}
	return k
}

// Now is the time by the Keeper's clock.
func (k *Keeper) Now() time.Time { return k.at(time.Now()) }

// at is a time by the Keeper's clock; that of a record without a time is now.
func (k *Keeper) at(t time.Time) time.Time {
	if t.IsZero() {
		t = time.Now()
	}
	return k.wall.Add(t.Sub(k.began))
}

// keeps says that records of level Debug and above are kept, until Discard.
func (k *Keeper) keeps(level slog.Level) bool {
	if level < slog.LevelDebug {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.over
}

// keep keeps one record.
func (k *Keeper) keep(r slog.Record, attrs []slog.Attr) error {
	e := newEvent(k.at(r.Time), k.end, r, attrs)
	k.add(&e)
	return nil
}

func (k *Keeper) add(e *Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.over {
		return
	}
	line := bytes.Clone(k.enc.line(e))
	if k.watch != nil {
		k.watch(line)
	}
	headLimit := int(float64(k.limit) * headShare)
	if k.full = k.full || k.headSize+len(line) > headLimit; !k.full {
		k.head = append(k.head, line)
		k.headSize += len(line)
		return
	}
	k.tail = append(k.tail, tailLine{e.Time, line})
	k.tailSize += len(line)
	for k.tailSize > k.limit-headLimit {
		if k.dropped++; k.dropped == 1 {
			k.firstDropped = k.tail[0].at
		}
		k.lastDropped = k.tail[0].at
		k.tailSize -= len(k.tail[0].text)
		k.tail[0] = tailLine{}
		k.tail = k.tail[1:]
	}
}

// Discard forgets everything and keeps nothing more.
func (k *Keeper) Discard() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	k.head, k.tail, k.dropped = nil, nil, 0
}

// Watch calls follow with the line of each event, also of those that are not kept. Call it before the first Handle.
// The program waits for follow, which must return at once and not log.
func (k *Keeper) Watch(follow func(line []byte)) { k.watch = follow }

// Since returns the lines of the events after the first n, and the number of all events. If some of these were not
// kept, a line says how many. Nothing may change the lines.
func (k *Keeper) Since(n int) (lines [][]byte, all int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since(n), len(k.head) + k.dropped + len(k.tail)
}

// lines are the events kept so far, and how many had to be left out.
func (k *Keeper) lines() (lines [][]byte, dropped int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.since(0), k.dropped
}

// since returns the lines after the first n events. The lock is held.
func (k *Keeper) since(n int) [][]byte {
	head, tail := len(k.head), len(k.head)+k.dropped // the numbers of the first events after the head and in the tail
	lines := slices.Clone(k.head[min(n, head):])
	if dropped := tail - max(n, head); dropped > 0 {
		gap := Event{
			Time: k.firstDropped, End: k.end, Who: k.end, Level: slog.LevelInfo, Event: event.RecordGap.Name(), Path: string(event.RecordGap.Path()),
			Message: fmt.Sprintf("%d events are left out here, because the record of this end has reached its limit of %d bytes", dropped, k.limit),
			Attrs:   []slog.Attr{slog.Int("dropped", dropped)},
		}
		if n > head {
			gap.Time = k.lastDropped
		}
		lines = append(lines, bytes.Clone(k.enc.line(&gap)))
	}
	for _, t := range k.tail[min(max(n-tail, 0), len(k.tail)):] {
		lines = append(lines, t.text)
	}
	return lines
}

// Events returns the events kept so far, in the order in which they were logged, and how many had to be
// left out.
func (k *Keeper) Events() (events []Event, dropped int, err error) {
	lines, dropped := k.lines()
	for _, line := range lines {
		e, err := parseEvent(line)
		if err != nil {
			return nil, 0, err
		}
		events = append(events, e)
	}
	return events, dropped, nil
}
