package trace

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"testing/slogtest"
	"time"

	"github.com/pkg/errors"
)

// quotesItself is a value that formats itself.
type quotesItself struct{}

func (quotesItself) String() string { return `"itself"` }

type resolves struct{}

func (resolves) LogValue() slog.Value { return slog.GroupValue(slog.Int("deep", 1)) }

// everyKind has an attribute of each kind that log/slog knows, and of each that a
// file must take care of.
func everyKind() []slog.Attr {
	nested := slog.String("innermost", "x")
	for i := range 2 * maxDepth {
		nested = slog.Attr{Key: fmt.Sprint("level", i), Value: slog.GroupValue(nested)}
	}
	return []slog.Attr{
		slog.String("text", "grüße \x1b[31m \"quoted\" \\ \x00"), slog.String("not UTF-8", "\xff"), slog.String("", "no name"),
		slog.Int("int", -5), slog.Int64("least", math.MinInt64), slog.Uint64("small", 5), slog.Uint64("large", math.MaxUint64),
		slog.Float64("half", 0.5), slog.Float64("whole", 3), slog.Float64("tiny", 1e-300), slog.Float64("huge", 1e300),
		slog.Float64("nan", math.NaN()), slog.Float64("infinite", math.Inf(-1)), slog.Float64("minus nothing", math.Copysign(0, -1)),
		slog.Bool("bool", true), slog.Duration("took", 1500*time.Microsecond), slog.Int("wait_ns", 7), slog.Uint64("large_ns", math.MaxUint64),
		slog.Time("when", time.Unix(1, 5)), slog.Any("error", errors.New("why")), slog.Any("says", quotesItself{}), slog.Any("nothing", nil),
		slog.Any("map", map[string]string{"b": "2", "a": "1"}), slog.Any("list", []int{1, 2}), slog.Any("resolves", resolves{}),
		slog.Group("attr", slog.String("PORT", "1"), slog.Int("PORT", 2)), slog.Group("empty"), slog.Group("", slog.Int("inlined", 1)),
		slog.Int("twice", 1), slog.Int("twice", 2), nested, {},
	}
}

func testRecord(t *testing.T) *Record {
	t.Helper()
	k := NewRecorder(EndClient, 1<<20)
	log := slog.New(k).With("who", "client")
	log.LogAttrs(context.Background(), slog.LevelInfo, "every kind", append([]slog.Attr{slog.String("event", "test"), slog.String("verb", "ibv_post_send"), slog.String("path", "data")}, everyKind()...)...)
	log.Debug("kept, whatever is narrated", "event", "wr.dump")
	log.Log(context.Background(), slog.LevelDebug-1, "below all")
	log.Error("no event")
	rec, err := NewRecord(Header{Job: "test", Error: "it failed", Server: Part{Why: "there is none"}}, k, nil)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

func TestRoundTrip(t *testing.T) {
	rec := testRecord(t)
	var file bytes.Buffer
	if n, err := rec.WriteTo(&file); err != nil || n != int64(file.Len()) {
		t.Fatalf("%d bytes of %d, %v", n, file.Len(), err)
	}
	text := file.String()
	again, err := ReadRecord(&file)
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if !reflect.DeepEqual(rec, again) {
		t.Errorf("got\n%+v\nwant\n%+v\nfile:\n%s", again, rec, text)
	}
	if len(rec.Events) != 3 || rec.Events[2].Event != "log" || rec.Events[1].Level != slog.LevelDebug {
		t.Fatalf("events %+v", rec.Events)
	}
	e := rec.Events[0]
	if e.Who != "client" || e.End != EndClient || e.Event != "test" || e.Verb != "ibv_post_send" || e.Path != "data" || e.Message != "every kind" {
		t.Errorf("%+v", e)
	}
	var names []string
	for _, a := range e.Attrs {
		names = append(names, a.Key)
	}
	if got, want := strings.Join(names, " "), "text not UTF-8 (no name) int least small large half whole tiny huge nan infinite minus nothing bool took wait large_ns when error says nothing map list resolves attr inlined twice level15"; got != want {
		t.Errorf("names %s\nwant  %s", got, want)
	}
	for _, test := range []struct {
		path string
		want any
	}{
		{"text", "grüße \x1b[31m \"quoted\" \\ \x00"}, {"not UTF-8", "\uFFFD"}, {"int", int64(-5)}, {"small", int64(5)}, {"large", uint64(math.MaxUint64)},
		{"half", 0.5}, {"whole", int64(3)}, {"huge", 1e300}, {"nan", "NaN"}, {"infinite", "-Inf"}, {"minus nothing", int64(0)}, {"bool", true},
		{"took", 1500 * time.Microsecond}, {"wait", time.Duration(7)}, {"large_ns", uint64(math.MaxUint64)}, {"error", "why"}, {"says", `"itself"`},
		{"nothing", "<nil>"}, {"map/a", "1"}, {"map/b", "2"}, {"list", "[1 2]"}, {"resolves/deep", int64(1)}, {"attr/PORT", int64(2)}, {"inlined", int64(1)},
		{"twice", int64(2)}, {"absent", nil}, {"attr/absent", nil}, {"int/absent", nil},
	} {
		if got := e.Attr(strings.Split(test.path, "/")...).Any(); got != test.want {
			t.Errorf("%s is %#v, want %#v", test.path, got, test.want)
		}
	}
}

// The times of a file sort as texts and have nanoseconds.
func TestTimesAreOfOneLength(t *testing.T) {
	e := Event{Time: time.Unix(1, 0).UTC(), End: EndClient, Who: "client", Event: "e"}
	line := string(newEncoder().line(&e))
	if !strings.HasPrefix(line, `{"time":"1970-01-01T00:00:01.000000000Z",`) {
		t.Error(line)
	}
}

// The Recorder obeys the rules of log/slog's handlers.
func TestRecorderIsAHandler(t *testing.T) {
	var k *Recorder
	slogtest.Run(t, func(*testing.T) slog.Handler {
		k = NewRecorder(EndClient, 1<<20)
		return k
	}, func(t *testing.T) map[string]any {
		lines, _ := k.lines()
		var line, flat map[string]any
		if err := json.Unmarshal(lines[0], &line); err != nil {
			t.Fatal(err)
		}
		flat, _ = line["attrs"].(map[string]any)
		if flat == nil {
			flat = map[string]any{}
		}
		for _, key := range []string{"level", "msg", "time"} {
			flat[key] = line[key]
		}
		if strings.HasSuffix(t.Name(), "zero-time") {
			delete(flat, "time") // every line of a record has one
		}
		return flat
	})
}

// Past its limit a Recorder has the beginning and the end, and says what it lacks.
func TestRecorderIsBounded(t *testing.T) {
	const limit = 10_000
	k := NewRecorder(EndServer, limit)
	log := slog.New(k)
	const logged = 1000
	for i := range logged {
		log.Info("message", "event", "e", "number", i)
	}
	lines, dropped := k.lines()
	events, again, err := k.Events()
	if err != nil || dropped != again || len(lines) != len(events) {
		t.Fatalf("%d lines, %d events, %d and %d dropped, %v", len(lines), len(events), dropped, again, err)
	}
	size := len(bytes.Join(lines, nil))
	if size > limit+300 || size < limit/2 {
		t.Errorf("%d bytes", size)
	}
	gap := -1
	for i, e := range events {
		if e.Event == "record.gap" {
			gap = i
		}
	}
	if gap < 1 || gap == len(events)-1 {
		t.Fatalf("gap at %d of %d", gap, len(events))
	}
	for i, e := range events[:gap] {
		if e.Attr("number").Int64() != int64(i) {
			t.Fatalf("event %d: %+v", i, e)
		}
	}
	for i, e := range events[gap+1:] {
		if e.Attr("number").Int64() != int64(gap+dropped+i) {
			t.Fatalf("event %d behind the gap: %+v", i, e)
		}
	}
	if e := events[gap]; e.Attr("dropped").Int64() != int64(dropped) || len(events)-1+dropped != logged ||
		e.Time.Before(events[gap-1].Time) || e.Time.After(events[gap+1].Time) {
		t.Errorf("%+v; %d events, %d dropped", e, len(events), dropped)
	}

	k.Discard()
	log.Info("more")
	if lines, _ := k.lines(); len(lines) != 0 || k.Enabled(context.Background(), slog.LevelError) {
		t.Errorf("%d lines after Discard", len(lines))
	}
}

// A text that is too long is cut; so is, without its attributes, an event that is.
func TestLongEvent(t *testing.T) {
	k := NewRecorder(EndClient, 100<<20)
	log := slog.New(k)
	log.Info(strings.Repeat("ü", maxText), "event", "e", "text", strings.Repeat("a\xff", maxText/2), "short", strings.Repeat("x", maxText))
	var many []any
	for i := range 200 {
		many = append(many, fmt.Sprint("text", i), strings.Repeat("\x01", maxText)) // six bytes each in JSON
	}
	log.Info("many", append(many, "event", "e")...)
	events, _, err := k.Events()
	if err != nil || len(events) != 2 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	e := &events[0]
	if text := e.Attr("text").String(); e.Message != strings.Repeat("ü", maxText/8)+"… (32768 bytes)" || !strings.HasSuffix(text, "… (32768 bytes)") || len(e.Attr("short").String()) != maxText {
		t.Errorf("%.100q, %.100q", e.Message, text)
	}
	if e := events[1]; e.Event != "e" || !strings.HasPrefix(e.Message, "many… (this event had ") || e.Attrs != nil {
		t.Errorf("%+v", e)
	}
}

// A clock that is set during the run does not shift what follows: the Recorder
// counts from its beginning by the monotonic clock.
func TestRecorderTime(t *testing.T) {
	began := time.Now()
	k := NewRecorder(EndClient, 1<<20)
	before := k.Now()
	slog.New(k).Info("m", "event", "e")
	after := k.Now()
	events, _, _ := k.Events()
	if at := events[0].Time; at.Before(before) || at.After(after) || at.Before(began) || at.After(time.Now()) {
		t.Errorf("%v is not from %v to %v", at, before, after)
	}
}

const (
	goodHeader = `{"schema":"rawverbs-record","version":1,"job":"j","done":true,"client":{"present":true,"events":1,"dropped":0},"server":{"present":false,"why":"w","events":0,"dropped":0}}` + "\n"
	goodEvent  = `{"time":"2026-01-02T03:04:05.000000006Z","level":"INFO","msg":"m","end":"client","who":"client","event":"e"}` + "\n"
)

func TestReaderRefuses(t *testing.T) {
	if _, err := ReadRecord(strings.NewReader(goodHeader + goodEvent)); err != nil {
		t.Fatalf("the good one: %v", err)
	}
	if _, err := ReadRecord(strings.NewReader(goodHeader + strings.Replace(goodEvent, `"msg"`, `"from tomorrow":{"a":1},"msg"`, 1))); err != nil {
		t.Fatalf("a name it does not know: %v", err)
	}
	header := func(old, replacement string) string {
		return strings.Replace(goodHeader, old, replacement, 1) + goodEvent
	}
	event := func(old, replacement string) string {
		return goodHeader + strings.Replace(goodEvent, old, replacement, 1)
	}
	for name, test := range map[string]struct{ file, want string }{
		"empty":                    {"", "the record is empty"},
		"no JSON":                  {"hello\n", "not a record of a run"},
		"another schema":           {header("rawverbs-record", "pcap"), `schema "pcap"`},
		"another version":          {header(`"version":1`, `"version":2`), "of version 2, and this program reads version 1; try: the program of the release"},
		"no version":               {header(`"version":1,`, ``), "version 0"},
		"another version, unlike":  {`{"schema":"rawverbs-record","version":9,"job":7,"client":"x"}` + "\n", "version 9"},
		"header of other types":    {header(`"job":"j"`, `"job":7`), "line 1"},
		"done and failed":          {header(`"done":true`, `"done":true,"error":"x"`), "line 1"},
		"neither done nor failed":  {header(`"done":true`, `"done":false`), "line 1"},
		"a clock of another end":   {header(`"done":true`, `"done":true,"clock":{"reference":"server","rounds":1}`), "the clock"},
		"an uncertainty below 0":   {header(`"done":true`, `"done":true,"clock":{"reference":"client","rounds":1,"uncertainty_ns":-1}`), "the clock"},
		"present without a clock":  {header(`"present":false,"why":"w"`, `"present":true`), "no clock"},
		"absent without a reason":  {header(`,"why":"w"`, ``), "the part"},
		"absent with events":       {header(`"why":"w","events":0`, `"why":"w","events":1`), "the part"},
		"too few events":           {header(`"events":1`, `"events":2`), "after 1 of the 2 events of the client; it was cut"},
		"too many events":          {header(`"events":1`, `"events":0`), "has 1 events of the client"},
		"events of the absent end": {event(`"end":"client"`, `"end":"server"`), "of the"},
		"cut in a line":            {goodHeader + goodEvent[:40], "line 2"},
		"an empty line":            {goodHeader + "\n" + goodEvent, "line 2"},
		"no time":                  {event(`"time":"2026-01-02T03:04:05.000000006Z",`, ""), "the time"},
		"a time of long ago":       {event("2026", "1066"), "the time"},
		"a time to come":           {event("2026", "2999"), "the time"},
		"times descend":            {header(`"events":1`, `"events":2`) + strings.Replace(goodEvent, "2026", "2025", 1), "line 3"},
		"no level":                 {event("INFO", "LOUD"), "the level"},
		"too low a level":          {event("INFO", "DEBUG-4"), "the level"},
		"no end":                   {event(`"client","who"`, `"middle","who"`), "the end"},
		"no who":                   {event(`"who":"client",`, ""), "who"},
		"no event":                 {event(`,"event":"e"`, ""), "event"},
		"a message of a number":    {event(`"msg":"m"`, `"msg":7`), "msg"},
		"attributes as a string":   {event(`"event":"e"`, `"event":"e","attrs":"x"`), "attrs"},
		"an array":                 {event(`"event":"e"`, `"event":"e","attrs":{"a":[]}`), "attrs: a"},
		"null":                     {event(`"event":"e"`, `"event":"e","attrs":{"a":null}`), "attrs: a"},
		"a name twice":             {event(`"event":"e"`, `"event":"e","attrs":{"a":1,"a":2}`), "twice"},
		"nested too deep":          {event(`"event":"e"`, `"event":"e","attrs":`+strings.Repeat(`{"a":`, 100)+"1"+strings.Repeat("}", 100)), "deep"},
		"something behind":         {event("}\n", "} x\n"), "line 2"},
		"a second object":          {event("}\n", "}{}\n"), "follows"},
		"a line without end":       {goodHeader + strings.Repeat("x", 2*maxLine), "line 2 of the record: it has more than"},
	} {
		rec, err := ReadRecord(strings.NewReader(test.file))
		if err == nil || !strings.Contains(err.Error(), test.want) || rec != nil {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	var schema *SchemaError
	if _, err := ReadRecord(strings.NewReader(header(`"version":1`, `"version":2`))); !errors.As(err, &schema) || schema.Version != 2 {
		t.Errorf("%v", err)
	}
	var line *LineError
	if _, err := ReadRecord(strings.NewReader(event("INFO", "LOUD"))); !errors.As(err, &line) || line.Line != 2 {
		t.Errorf("%v", err)
	}
	if _, err := ReadRecord(strings.NewReader(goodHeader)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
	fails := errors.New("the disk")
	if _, err := ReadRecord(io.MultiReader(strings.NewReader(goodHeader), iotest.ErrReader(fails))); !errors.Is(err, fails) {
		t.Errorf("%v", err)
	}
}

// FuzzReadRecord: nothing makes the reader panic, and what it takes is written
// and read as the same again, and drawn in a bounded number of rows.
func FuzzReadRecord(f *testing.F) {
	f.Add([]byte(goodHeader + goodEvent))
	both := strings.Replace(goodHeader, `"server":{"present":false,"why":"w","events":0`, `"clock":{"reference":"client","method":"m","rounds":3,"offset_ns":-5,"uncertainty_ns":7},"server":{"present":true,"events":1`, 1)
	f.Add([]byte(both + goodEvent + strings.Replace(goodEvent, `"end":"client"`, `"end":"server"`, 1)))
	for _, attrs := range []string{`{"a":1.5e3,"b_ns":5,"c":{"d":{"e":"f"}},"g":{}}`, `{"a":99999999999999999999,"b":1e999,"c":-0,"_ns":1}`, `{"a_ns_ns":1,"a_ns":2,"a":true}`} {
		f.Add([]byte(goodHeader + strings.Replace(goodEvent, `"event":"e"`, `"event":"e","attrs":`+attrs, 1)))
	}
	for _, rec := range recorded(f) {
		var file bytes.Buffer
		if _, err := rec.WriteTo(&file); err != nil {
			f.Fatal(err)
		}
		f.Add(file.Bytes())
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		rec, err := ReadRecord(bytes.NewReader(file))
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if _, err := rec.WriteTo(&first); err != nil {
			t.Fatal(err)
		}
		text := first.String()
		again, err := ReadRecord(&first)
		if err != nil {
			t.Fatalf("cannot read what was written: %v\n%s", err, text)
		}
		if !reflect.DeepEqual(rec, again) {
			t.Fatalf("got %+v\nwant %+v", again, rec)
		}
		if again.WriteTo(&second); second.String() != text {
			t.Fatalf("written again:\n%s\nat first:\n%s", &second, text)
		}
		var drawn bytes.Buffer
		if err := rec.WriteLadder(&drawn, true); err != nil || bytes.Count(drawn.Bytes(), []byte("\n")) > 4*maxEndRows+len(file) {
			t.Fatalf("%v; %d bytes are drawn", err, drawn.Len())
		}
	})
}

// FuzzRecorder checks that the line of any record can be read.
func FuzzRecorder(f *testing.F) {
	f.Add("message", "key", "value", "group", 5.5, uint64(7))
	f.Add("", "who", "", "", math.Inf(1), uint64(math.MaxUint64))
	f.Add("\xff", "event", "\x00", "a_ns", math.Copysign(0, -1), uint64(1))
	f.Fuzz(func(t *testing.T, msg, key, value, group string, number float64, big uint64) {
		k := NewRecorder(EndServer, 100<<20)
		slog.New(k).With(key, value).WithGroup(group).Info(msg, key, number, value, big, slog.Group(group, key, big))
		slog.New(k).Info(msg, key, value, value, number, slog.Group(group, key, big))
		events, _, err := k.Events()
		if err != nil || len(events) != 2 {
			t.Fatalf("%d events, %v", len(events), err)
		}
	})
}
