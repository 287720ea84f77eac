// The record of a run: a header, and the events of both ends on one clock.

package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// The schema of the files that this package writes, and the only one it reads.
const (
	Schema  = "rawverbs-record"
	Version = 1
)

// Record is the events of a run: the client's, and the server's if the client could fetch
// them. The events are in the order of their times.
type Record struct {
	Header
	Events []Event
}

// Header is the first line of a file.
type Header struct {
	Schema  string `json:"schema"`
	Version int    `json:"version"`
	Job     string `json:"job"`
	Done    bool   `json:"done"`            // the job succeeded
	Error   string `json:"error,omitempty"` // why it did not succeed

	// FailedEnd is the end that failed first; "" if the job succeeded or the end is not known.
	FailedEnd string `json:"failed_end,omitempty"`

	Client Part   `json:"client"`
	Server Part   `json:"server"`
	Clock  *Clock `json:"clock,omitempty"` // nil if it was not measured
}

// Part says what a record has of one end.
type Part struct {
	Present bool   `json:"present"`
	Why     string `json:"why,omitempty"`     // why it is not present
	Program string `json:"program,omitempty"` // name and version
	Host    string `json:"host,omitempty"`
	Device  string `json:"device,omitempty"`
	Events  int    `json:"events"`  // lines of this end in the file
	Dropped int    `json:"dropped"` // events that were left out for want of room
}

// Clock says how the server's times were put on the client's clock. The server's clock was
// ahead by Offset, give or take Uncertainty, and Offset was subtracted.
type Clock struct {
	Reference   string        `json:"reference"` // the end whose clock counts: EndClient
	Method      string        `json:"method"`
	Rounds      int           `json:"rounds"`
	Offset      time.Duration `json:"offset_ns"`
	Uncertainty time.Duration `json:"uncertainty_ns"`
}

// SchemaError is a file that this package cannot read because it is of another
// schema or version.
type SchemaError struct {
	Schema  string
	Version int
}

func (e *SchemaError) Error() string {
	if e.Schema != Schema {
		return fmt.Sprintf("not a record of a run: the first line has the schema %q, not %q; try: a file that rdma_client --record wrote", e.Schema, Schema)
	}
	return fmt.Sprintf("the record is of version %d, and this program reads version %d; try: the program of the release that wrote it", e.Version, Version)
}

// LineError is a line of a file that breaks the schema.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d of the record: %v", e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

// ReadRecord reads a file that WriteTo wrote. The error is a *[SchemaError] for a
// file of another kind or version, a *[LineError] for a line that is wrong; it
// matches io.ErrUnexpectedEOF if lines are missing at the end. Texts in a record
// are those of both ends and may hold anything: quote them before a terminal
// sees them.
func ReadRecord(r io.Reader) (*Record, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine+1)
	rec := &Record{}
	counts := map[string]int{}
	number := 0
	for lines.Scan() {
		number++
		if number == 1 {
			var err error
			if rec.Header, err = parseHeader(lines.Bytes()); err != nil {
				return nil, err
			}
			continue
		}
		e, err := parseEvent(lines.Bytes())
		if err == nil && len(rec.Events) > 0 && e.Time.Before(rec.Events[len(rec.Events)-1].Time) {
			err = errors.New("its time is before the time of the line above")
		}
		if err != nil {
			return nil, &LineError{number, err}
		}
		rec.Events = append(rec.Events, e)
		counts[e.End]++
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &LineError{number + 1, errors.Errorf("it has more than %d bytes", maxLine)}
	case err != nil:
		return nil, errors.WithMessage(err, "read the record")
	case number == 0:
		return nil, errors.WithMessage(io.ErrUnexpectedEOF, "the record is empty")
	}
	for end, part := range map[string]Part{EndClient: rec.Client, EndServer: rec.Server} {
		switch got := counts[end]; {
		case got < part.Events:
			return nil, errors.WithMessagef(io.ErrUnexpectedEOF, "the record ends after %d of the %d events of the %s; it was cut", got, part.Events, end)
		case got > part.Events:
			return nil, errors.Errorf("the record has %d events of the %s, but its header announces %d", got, end, part.Events)
		}
	}
	return rec, nil
}

// ReadFile reads a file by ReadRecord.
func ReadFile(name string) (*Record, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w; try: rdma_client --record %s …, which writes the file", err, name)
	}
	defer file.Close()
	rec, err := ReadRecord(file)
	return rec, errors.WithMessage(err, name)
}

func parseHeader(line []byte) (Header, error) {
	var h Header
	var kind struct {
		Schema  string `json:"schema"`
		Version int    `json:"version"`
	}
	// Another version's other fields may be anything.
	if err := json.Unmarshal(line, &kind); err != nil || kind.Schema != Schema || kind.Version != Version {
		return h, &SchemaError{Schema: kind.Schema, Version: kind.Version}
	}
	err := json.Unmarshal(line, &h)
	if err == nil {
		err = h.check()
	}
	if err != nil {
		return h, &LineError{1, err}
	}
	return h, nil
}

func (h *Header) check() error {
	switch {
	case h.Done == (h.Error != ""):
		return errors.Errorf("the job was done (%v), with the error %q", h.Done, h.Error)
	case h.FailedEnd != "" && (h.Done || h.FailedEnd != EndClient && h.FailedEnd != EndServer):
		return errors.Errorf("the job was done (%v), and the end %q failed", h.Done, h.FailedEnd)
	case h.Clock == nil && h.Server.Present:
		return errors.New("the server's events have no clock")
	case h.Clock != nil && (h.Clock.Reference != EndClient || h.Clock.Rounds < 1 || h.Clock.Uncertainty < 0):
		return errors.Errorf("the clock is %+v", *h.Clock)
	}
	for _, part := range []Part{h.Client, h.Server} {
		if part.Events < 0 || part.Dropped < 0 || part.Present == (part.Why != "") || !part.Present && part.Events > 0 {
			return errors.Errorf("the part of an end is %+v", part)
		}
	}
	return nil
}

// WriteTo writes the header and each event on a line.
func (r *Record) WriteTo(w io.Writer) (int64, error) {
	var header bytes.Buffer
	enc := json.NewEncoder(&header)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r.Header); err != nil {
		return 0, err
	}
	written, err := header.WriteTo(w)
	if err != nil {
		return written, err
	}
	lines := newEncoder()
	for i := range r.Events {
		n, err := w.Write(lines.line(&r.Events[i]))
		written += int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// NewRecord makes a record of a client's events and the server's part. h needs Job, Error and the known
// fields of both ends. If fetched is nil, h.Server.Why has the reason.
func NewRecord(h Header, client *Recorder, fetched *Fetched) (*Record, error) {
	h.Schema, h.Version, h.Done = Schema, Version, h.Error == ""
	events, dropped, err := client.Events()
	if err != nil {
		return nil, err
	}
	h.Client.Present, h.Client.Events, h.Client.Dropped = true, len(events), dropped
	if fetched != nil {
		h.Server, h.Clock = fetched.Part, &fetched.Clock
		events = append(events, fetched.Events...)
	}
	slices.SortStableFunc(events, func(a, b Event) int { return a.Time.Compare(b.Time) })
	return &Record{h, events}, nil
}
