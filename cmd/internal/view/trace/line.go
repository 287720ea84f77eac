// An event as a line of JSON, and back. The names are those of --json; the event's own
// attributes are under "attrs".

package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/pkg/errors"
)

// maxLine is how long a line may be, in bytes. An event that would be longer is written
// without its attributes.
const maxLine = 1 << 20

// timeLayout has all its digits always, so that the texts sort as the times do.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// encoder writes events as lines into buf.
type encoder struct {
	buf  bytes.Buffer
	json slog.Handler
}

func newEncoder() *encoder {
	e := &encoder{}
	e.json = slog.NewJSONHandler(&e.buf, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		switch {
		case a.Value.Kind() == slog.KindDuration:
			return slog.Int64(writtenKey(a), a.Value.Duration().Nanoseconds())
		case a.Value.Kind() == slog.KindTime && len(groups) == 0 && a.Key == slog.TimeKey:
			return slog.String(a.Key, a.Value.Time().UTC().Format(timeLayout))
		}
		return a
	}})
	return e
}

// line is the event's line with its newline, valid until the next.
func (e *encoder) line(ev *Event) []byte {
	e.encode(ev)
	if e.buf.Len() > maxLine {
		short := *ev
		short.Message = fmt.Sprintf("%.100s… (this event had %d bytes, which is too long for a record)", ev.Message, e.buf.Len())
		short.Attrs = nil
		e.encode(&short)
	}
	return e.buf.Bytes()
}

func (e *encoder) encode(ev *Event) {
	e.buf.Reset()
	r := slog.NewRecord(ev.Time, ev.Level, ev.Message, 0)
	r.AddAttrs(slog.String("end", ev.End), slog.String("who", ev.Who), slog.String("event", ev.Event))
	if ev.Verb != "" {
		r.AddAttrs(slog.String("verb", ev.Verb))
	}
	if ev.Path != "" {
		r.AddAttrs(slog.String("path", ev.Path))
	}
	r.AddAttrs(slog.Attr{Key: "attrs", Value: slog.GroupValue(ev.Attrs...)}) // left out if there are none
	_ = e.json.Handle(context.Background(), r)                               // a buffer takes everything
}

// parseEvent reads a line. It ignores names that it does not know.
func parseEvent(line []byte) (Event, error) {
	fields, err := parseObject(line)
	if err != nil {
		return Event{}, err
	}
	var e Event
	var at, level string
	for _, f := range fields {
		text := map[string]*string{
			"time": &at, "level": &level, "msg": &e.Message, "end": &e.End,
			"who": &e.Who, "event": &e.Event, "verb": &e.Verb, "path": &e.Path,
		}[f.Key]
		switch {
		case text != nil && f.Value.Kind() == slog.KindString:
			*text = f.Value.String()
		case text != nil:
			return Event{}, errors.Errorf("%q is not a string", f.Key)
		case f.Key == "attrs" && f.Value.Kind() == slog.KindGroup:
			e.Attrs = canonical(f.Value.Group(), 0)
		case f.Key == "attrs":
			return Event{}, errors.New(`"attrs" is not an object`)
		}
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return Event{}, errors.Errorf("the time %q is not valid", at)
	}
	if e.Time = e.Time.UTC(); !inRange(e.Time) {
		return Event{}, errors.Errorf("the time %q is not between 1970 and 2262", at)
	}
	if err := e.Level.UnmarshalText([]byte(level)); err != nil {
		return Event{}, errors.Errorf("the level %q is not valid", level)
	}
	switch {
	case e.Level < slog.LevelDebug:
		return Event{}, errors.Errorf("the level %v is below %v, which no record has", e.Level, slog.LevelDebug)
	case e.End != EndClient && e.End != EndServer:
		return Event{}, errors.Errorf("the end is %q, not %q or %q", e.End, EndClient, EndServer)
	case e.Who == "" || e.Event == "":
		return Event{}, errors.New(`"who" or "event" is not there`)
	}
	return e, nil
}

// inRange says whether a time can be counted in nanoseconds since 1970.
func inRange(t time.Time) bool { return t.Year() >= 1970 && t.Year() < 2262 }

// parseObject reads one JSON object and nothing behind it, in order.
func parseObject(text []byte) ([]slog.Attr, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields, err := parseFields(dec, 0)
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return fields, nil
}

// parseFields reads an object's fields and the brace that ends it.
func parseFields(dec *json.Decoder, depth int) ([]slog.Attr, error) {
	if depth > maxDepth+1 { // the line and "attrs" are two
		return nil, errors.Errorf("objects are nested more than %d deep", maxDepth)
	}
	var fields []slog.Attr
	seen := make(map[string]bool)
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, badJSON(err)
		}
		name, _ := t.(string) // in an object the decoder gives nothing else
		if name == "" || seen[name] {
			return nil, errors.Errorf("the name %q is empty or occurs twice", name)
		}
		seen[name] = true
		value, err := parseValue(dec, depth)
		if err != nil {
			return nil, errors.WithMessage(err, name)
		}
		fields = append(fields, slog.Attr{Key: name, Value: value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, badJSON(err)
	}
	return fields, nil
}

func parseValue(dec *json.Decoder, depth int) (slog.Value, error) {
	t, err := dec.Token()
	if err != nil {
		return slog.Value{}, badJSON(err)
	}
	switch t := t.(type) {
	case string:
		return slog.StringValue(t), nil
	case bool:
		return slog.BoolValue(t), nil
	case json.Number:
		return number("", t.String()).Value, nil
	case json.Delim:
		if t == '{' {
			fields, err := parseFields(dec, depth+1)
			return slog.GroupValue(fields...), err
		}
	}
	return slog.Value{}, errors.Errorf("%v is not a string, number, boolean or object", t)
}

func badJSON(err error) error { return errors.WithMessage(err, "not JSON") }
