// How the server's half of a record comes to the client, when the job is over and
// both ends' queue pairs are freed, and TCP alone is left:
//
//	client                       server
//	note "clock"   ----------->            as often as it likes, up to a limit
//	             <-----------  note "clock": when it heard that, when it answered
//	note "record"  ----------->            once
//	             <-----------  note "record" …: the half, in parts
//	             <-----------  note "record end": its last part
//
// A half is a line with a Half as JSON, then the events, as they are in a file.

package trace

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Param is the parameter of both ends' hellos that says: if the peer has it too,
// the run ends with this. Its value is the Version of the events.
const (
	Param      = "record"
	ParamValue = "1"
)

const (
	noteClock     = "clock"
	noteRecord    = "record"
	noteRecordEnd = "record end"
)

// What an end takes from the other.
const (
	maxQuestions = 4 * clockRounds               // a server answers
	maxHalf      = KeptByServer + 64<<10         // bytes a client takes; the extra for a header and a gap
	maxParts     = 2 * (maxHalf/partSize + 1)    // in so many notes
	partSize     = oob.MaxNoteData / 1024 * 1024 // bytes of data in a note
)

// Notes is the part of an *oob.Conn that this needs.
type Notes interface {
	SendNote(context.Context, oob.Note) error
	RecvNote(ctx context.Context, name string) (oob.Note, error)
}

// Fetched is the server's half, with its events' times on the client's clock.
type Fetched struct {
	Half   Half
	Clock  Clock
	Events []Event
}

// Fetch has the server's half of a record told by a server that calls Give.
// Whatever the server sends, it takes a few MiB and ctx's time at most.
func Fetch(ctx context.Context, tcp Notes, client *Keeper) (*Fetched, error) {
	f := &Fetched{}
	var err error
	if f.Clock, err = measureClock(ctx, tcp, client.Now); err != nil {
		return nil, errors.WithMessage(err, "compare the clocks")
	}
	if err := tcp.SendNote(ctx, oob.Note{Name: noteRecord}); err != nil {
		return nil, err
	}
	var half []byte
	for part := 1; ; part++ {
		n, err := tcp.RecvNote(ctx, "")
		if err != nil {
			return nil, err
		}
		if n.Name != noteRecord && n.Name != noteRecordEnd {
			return nil, errors.Errorf("the server sent the note %q in the midst of its half", n.Name)
		}
		if half = append(half, n.Data...); len(half) > maxHalf || part > maxParts {
			return nil, errors.Errorf("the server sent more than %d bytes or %d notes", maxHalf, maxParts)
		}
		if n.Name == noteRecordEnd {
			break
		}
	}
	if err := f.parse(half); err != nil {
		return nil, err
	}
	return f, nil
}

// parse reads the half, which is text from another host.
func (f *Fetched) parse(text []byte) error {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if err := json.Unmarshal(first, &f.Half); err != nil {
		return errors.WithMessage(badJSON(err), "the server's half")
	}
	if !f.Half.Present || f.Half.Why != "" || f.Half.Dropped < 0 {
		return errors.Errorf("the server says of its half %.200q", first)
	}
	number := 1
	for line := range bytes.Lines(rest) {
		number++
		e, err := parseEvent(line)
		if err != nil {
			return errors.WithMessagef(err, "line %d of the server's half", number)
		}
		e.Time, e.End = e.Time.Add(-f.Clock.Offset), EndServer
		if !inRange(e.Time) {
			return errors.Errorf("line %d of the server's half is of the year %d", number, e.Time.Year())
		}
		f.Events = append(f.Events, e)
	}
	if len(f.Events) != f.Half.Events {
		return errors.Errorf("the server's half has %d events, and says %d", len(f.Events), f.Half.Events)
	}
	return nil
}

// Give answers a client that calls Fetch; of half it fills in what the Keeper
// knows. A client can have it send the half once, and takes ctx's time at most.
func Give(ctx context.Context, tcp Notes, server *Keeper, half Half) error {
	for range maxQuestions {
		n, err := tcp.RecvNote(ctx, "")
		switch {
		case err != nil:
			return err
		case n.Name == noteClock:
			err = tellClock(ctx, tcp, server.Now)
		case n.Name == noteRecord:
			return giveHalf(ctx, tcp, server, half)
		default:
			err = errors.Errorf("the client sent the note %q, which is no question", n.Name)
		}
		if err != nil {
			return err
		}
	}
	return errors.Errorf("the client asked for the time %d times and not for the record", maxQuestions)
}

func giveHalf(ctx context.Context, tcp Notes, server *Keeper, half Half) error {
	lines, dropped := server.lines()
	half.Present, half.Events, half.Dropped = true, len(lines), dropped
	text, err := json.Marshal(half)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	text = append(text, bytes.Join(lines, nil)...)
	for len(text) > partSize {
		if err := tcp.SendNote(ctx, oob.Note{Name: noteRecord, Data: text[:partSize]}); err != nil {
			return err
		}
		text = text[partSize:]
	}
	return tcp.SendNote(ctx, oob.Note{Name: noteRecordEnd, Data: text})
}

var _ Notes = (*oob.Conn)(nil)
