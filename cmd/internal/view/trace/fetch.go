// How the client gets the server's part of a record. The job is over and both ends'
// queue pairs are freed; only TCP is left:
//
//	client                       server
//	note "clock"   ----------->            as often as it likes, up to a limit
//	             <-----------  note "clock": when it heard that, when it answered
//	note "record"  ----------->            once
//	             <-----------  note "record" …: the part, in pieces
//	             <-----------  note "record end": the last piece
//
// A part is a line with a Part as JSON, then the events, as they are in a file.

package trace

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Param is the parameter of both ends' hellos by which they agree to compare clocks and
// send the server's part after the job. Its value is the Version of the events.
const (
	Param      = "record"
	ParamValue = "1"
)

const (
	noteClock     = "clock"
	noteRecord    = "record"
	noteRecordEnd = "record end"
)

// Limits of what an end accepts from the other.
const (
	maxQuestions = 4 * clockRounds               // that a server answers
	maxPart      = KeptByServer + 64<<10         // bytes that a client accepts; the extra is for a header and a gap
	maxPieces    = 2 * (maxPart/pieceSize + 1)   // notes that a client accepts
	pieceSize    = oob.MaxNoteData / 1024 * 1024 // bytes of data in a note
)

// Notes is the methods of an *oob.Conn that this package uses.
type Notes interface {
	SendNote(context.Context, oob.Note) error
	RecvNote(ctx context.Context, name string) (oob.Note, error)
}

// Fetched is the server's part of a record, with the times of its events on the client's
// clock.
type Fetched struct {
	Part   Part
	Clock  Clock
	Events []Event
}

// Fetch fetches the server's part of a record from a server that calls Give. Whatever the
// server sends, Fetch takes a few MiB and ctx's time at most.
func Fetch(ctx context.Context, tcp Notes, client *Recorder) (*Fetched, error) {
	f := &Fetched{}
	var err error
	if f.Clock, err = measureClock(ctx, tcp, client.Now); err != nil {
		return nil, errors.WithMessage(err, "compare the clocks")
	}
	if err := tcp.SendNote(ctx, oob.Note{Name: noteRecord}); err != nil {
		return nil, err
	}
	var text []byte
	for piece := 1; ; piece++ {
		n, err := tcp.RecvNote(ctx, "")
		if err != nil {
			return nil, err
		}
		if n.Name != noteRecord && n.Name != noteRecordEnd {
			return nil, errors.Errorf("the server sent the note %q in the middle of its part", n.Name)
		}
		if text = append(text, n.Data...); len(text) > maxPart || piece > maxPieces {
			return nil, errors.Errorf("the server sent more than %d bytes or %d notes", maxPart, maxPieces)
		}
		if n.Name == noteRecordEnd {
			break
		}
	}
	if err := f.parse(text); err != nil {
		return nil, err
	}
	return f, nil
}

// parse reads the server's part, which is text from another host.
func (f *Fetched) parse(text []byte) error {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if err := json.Unmarshal(first, &f.Part); err != nil {
		return errors.WithMessage(badJSON(err), "the server's part")
	}
	if !f.Part.Present || f.Part.Why != "" || f.Part.Dropped < 0 {
		return errors.Errorf("the server sent %.200q instead of its part", first)
	}
	number := 1
	for line := range bytes.Lines(rest) {
		number++
		e, err := parseEvent(line)
		if err != nil {
			return errors.WithMessagef(err, "line %d of the server's part", number)
		}
		e.Time, e.End = e.Time.Add(-f.Clock.Offset), EndServer
		if !inRange(e.Time) {
			return errors.Errorf("line %d of the server's part has a time in the year %d", number, e.Time.Year())
		}
		f.Events = append(f.Events, e)
	}
	if len(f.Events) != f.Part.Events {
		return errors.Errorf("the server's part has %d events, but announces %d", len(f.Events), f.Part.Events)
	}
	return nil
}

// Give answers a client that calls Fetch. It adds to part what the Recorder knows. A client
// gets the part once, and uses ctx's time at most.
func Give(ctx context.Context, tcp Notes, server *Recorder, part Part) error {
	for range maxQuestions {
		n, err := tcp.RecvNote(ctx, "")
		switch {
		case err != nil:
			return err
		case n.Name == noteClock:
			err = giveTime(ctx, tcp, server.Now)
		case n.Name == noteRecord:
			return givePart(ctx, tcp, server, part)
		default:
			err = errors.Errorf("the client sent the note %q, which is not a question", n.Name)
		}
		if err != nil {
			return err
		}
	}
	return errors.Errorf("the client asked for the time %d times and not for the record", maxQuestions)
}

func givePart(ctx context.Context, tcp Notes, server *Recorder, part Part) error {
	lines, dropped := server.lines()
	part.Present, part.Events, part.Dropped = true, len(lines), dropped
	text, err := json.Marshal(part)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	text = append(text, bytes.Join(lines, nil)...)
	for len(text) > pieceSize {
		if err := tcp.SendNote(ctx, oob.Note{Name: noteRecord, Data: text[:pieceSize]}); err != nil {
			return err
		}
		text = text[pieceSize:]
	}
	return tcp.SendNote(ctx, oob.Note{Name: noteRecordEnd, Data: text})
}

var _ Notes = (*oob.Conn)(nil)
