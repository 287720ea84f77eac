// How the client gets the server's events while the job runs, for a ladder. The server's hello
// offers it. The client sends an empty note "ladder" when it is ready. From then on the server
// sends a note "ladder" in front of each of its messages, and also ten times per second. Each
// note has the time at which it was made, then the events since the note before:
//
//	1767366245152267919
//	{"time":…}
//	{"time":…}

package trace

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// LadderParam is the parameter of the server's hello by which it offers its events for a
// ladder, and the name of the notes. Its value is the Version of the events.
const (
	LadderParam = "ladder"
	LadderNote  = LadderParam
)

// FeedInterval is how often the server sends its events if it has no message to send.
const FeedInterval = 100 * time.Millisecond

// Limits of a feed, in bytes of events. A server leaves out what is beyond them.
const (
	maxFeed     = KeptByServer        // of a whole run
	maxFeedWork = headShare * maxFeed // of a whole run, when a post or a completion follows
	maxNotes    = 4 * maxFeed         // of notes that a client accepts at once
	notesRate   = 64 << 10            // of notes that a client accepts in addition, per second
)

// Feed has the events of a Keeper that are drawn in a ladder and were not sent yet.
type Feed struct {
	kept  *Keeper
	rest  []byte // lines that wait
	total int    // bytes of lines, with those that were sent
}

// Feed begins a feed, with the events that are kept. There is one feed of a Keeper.
func (k *Keeper) Feed() *Feed {
	k.mu.Lock()
	defer k.mu.Unlock()
	f := &Feed{kept: k}
	for _, line := range k.head {
		if e, err := parseEvent(line); err == nil {
			f.add(&e, line)
		}
	}
	k.feed = f
	return f
}

// add takes an event, as its line, if a ladder draws it. The lock of kept is held.
func (f *Feed) add(e *Event, line []byte) {
	s := stepOf(e, true)
	limit := maxFeed
	if s.isWork() && !s.failed { // leave room for the end of the run
		limit = maxFeedWork
	}
	drawn := isMessage(e) || s.kind != noStep
	if drawn && f.total+len(line) <= limit && len(line) < pieceSize/2 {
		f.rest = append(f.rest, line...)
		f.total += len(line)
	}
}

// Notes returns the events that wait as notes, at least one.
func (f *Feed) Notes() []oob.Note {
	f.kept.mu.Lock()
	defer f.kept.mu.Unlock()
	var notes []oob.Note
	for {
		piece := f.rest
		if len(piece) > pieceSize/2 { // the last newline ends a piece; each line is shorter than one
			piece = piece[:bytes.LastIndexByte(piece[:pieceSize/2], '\n')+1]
		}
		f.rest = f.rest[len(piece):]
		made := int64(0) // the next piece has events of the same time
		if len(f.rest) == 0 {
			made = f.kept.at(time.Now()).UnixNano()
		}
		notes = append(notes, oob.Note{Name: LadderNote, Data: append(fmt.Appendf(nil, "%d\n", made), piece...)})
		if len(f.rest) == 0 {
			f.rest = nil
			return notes
		}
	}
}

// parseFeed reads a note of a feed, which is text from another host. upTo is the zero time if
// the note does not say when it was made. A note without data is empty.
func parseFeed(data []byte) (upTo time.Time, events []Event, err error) {
	if len(data) == 0 {
		return upTo, nil, nil
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	made, err := strconv.ParseInt(string(first), 10, 64)
	if err != nil || made < 0 {
		return upTo, nil, errors.Errorf("the time %.32q is not a number of nanoseconds", first)
	}
	if made > 0 {
		upTo = time.Unix(0, made).UTC()
	}
	for line := range bytes.Lines(rest) {
		e, err := parseEvent(line)
		if err != nil {
			return upTo, nil, err
		}
		e.End = EndServer
		events = append(events, e)
	}
	return upTo, events, nil
}
