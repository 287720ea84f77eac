package trace

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

var update = flag.Bool("update", false, "rewrite testdata/ladder/*.txt")

// recorded reads the records of testdata/ladder: those of real runs on soft0, without what no
// ladder draws.
func recorded(t testing.TB) map[string]*Record {
	t.Helper()
	files, err := filepath.Glob("testdata/ladder/*.jsonl")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d records, %v", len(files), err)
	}
	all := map[string]*Record{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		rec, err := ReadRecord(f)
		f.Close()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[strings.TrimSuffix(file, ".jsonl")] = rec
	}
	return all
}

func ladderOf(t *testing.T, rec *Record) string {
	t.Helper()
	var out strings.Builder
	if err := rec.WriteLadder(&out, false); err != nil {
		t.Fatal(err)
	}
	checkLadder(t, out.String())
	return out.String()
}

// checkLadder checks that each line has at most 80 runes and columns, and that the lifelines
// are below each other up to the end.
func checkLadder(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	end := slices.IndexFunc(lines, func(line string) bool {
		return line == "done" || regexp.MustCompile(`^(the (client|server) )?failed: `).MatchString(line)
	})
	if end < 0 {
		t.Errorf("no end:\n%s", text)
	}
	for i, line := range lines {
		if columns.Of(line) > ladderWidth || utf8.RuneCountInString(line) > ladderWidth {
			t.Errorf("%d columns, %d runes: %q", columns.Of(line), utf8.RuneCountInString(line), line)
		}
		if i == 0 || i >= end {
			continue
		}
		runes := []rune(line) // in these tests a rune is a column before the second lifeline, or the line is wide
		if len(runes) == columns.Of(line) && (string(runes[stateWidth]) != lifeline || string(runes[stateWidth+innerWidth+1]) != lifeline) {
			t.Errorf("no lifelines: %q", line)
		}
	}
}

// TestLadders compares the ladder of each recorded job with testdata/ladder. After a change:
// go test ./cmd/internal/view/trace -run TestLadders -update, and review the difference.
func TestLadders(t *testing.T) {
	for name, rec := range recorded(t) {
		got := ladderOf(t, rec)
		if *update {
			if err := os.WriteFile(name+".txt", []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name + ".txt")
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}

// TestLadderHasEachStep compares ladders with the events: what is not drawn is counted.
func TestLadderHasEachStep(t *testing.T) {
	counted := regexp.MustCompile(`… (\d+) more like these`)
	for name, rec := range recorded(t) {
		want, got := 0, 0
		for i := range rec.Events {
			if stepOf(&rec.Events[i], rec.Client.Present && rec.Server.Present).kind != noStep {
				want++
			}
		}
		for line := range strings.Lines(ladderOf(t, rec)) {
			switch m := counted.FindStringSubmatch(line); {
			case m != nil:
				n, _ := strconv.Atoi(m[1])
				got += n
			case strings.Contains(line, lifeline) && !strings.Contains(line, "╳"):
				got++
			}
		}
		if got != want || want == 0 {
			t.Errorf("%s: %d steps, %d rows", name, got, want)
		}
	}
}

// TestLadderOfTexts checks texts of another program: long, wide, and without width.
func TestLadderOfTexts(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("x", 1000), strings.Repeat("世界", 50), strings.Repeat("\u0301", 500), "\x1b[31m\n│", "🌍", "\u202e"} {
		rec := &Record{Header: Header{Error: "e " + text, FailedEnd: EndServer, Client: Part{Present: true, Device: text}, Server: Part{Present: true, Device: text}}}
		for _, end := range []string{EndClient, EndServer} {
			rec.Events = append(rec.Events,
				Event{End: end, Event: "oob.message", Attrs: []slog.Attr{slog.Bool("sent", true), slog.String("message", text), slog.String("name", text)}},
				Event{End: end, Event: "qp.transition", Message: text, Attrs: []slog.Attr{slog.String("error", text)}},
				Event{End: end, Event: "wr.posted", Verb: "ibv_post_send", Message: "post " + text},
				Event{End: end, Event: "wr.completed", Attrs: []slog.Attr{slog.Int("wr_id", 1), slog.String("status", text)}},
				Event{End: end, Event: "async.event", Message: text},
			)
		}
		got := ladderOf(t, rec)
		if strings.ContainsAny(got, "\x1b\u202e\u0301") {
			t.Errorf("%q", got)
		}
	}
}

// TestLadderOfWrongMessages checks that messages that do not say whether they were sent are not
// drawn: a record may be of any origin.
func TestLadderOfWrongMessages(t *testing.T) {
	for _, attrs := range []string{`{}`, `{"sent":"yes"}`, `{"sent":1}`, `{"sent":{"a":true}}`, `{"sent":{}}`, `{"message":"hello","name":""}`} {
		file := fmt.Sprintf(`{"schema":%q,"version":%d,"job":"test","done":true,"client":{"why":"missing"},"server":{"present":true,"events":1},`, Schema, Version) +
			`"clock":{"reference":"client","rounds":1}}` + "\n" +
			`{"time":"2026-01-02T15:04:05Z","level":"INFO","msg":"m","end":"server","who":"server/1","event":"oob.message","attrs":` + attrs + "}\n"
		rec, err := ReadRecord(strings.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if got := ladderOf(t, rec); strings.Count(got, "\n") != 2 {
			t.Errorf("%s: drawn\n%s", attrs, got)
		}
	}
}

// TestLadderOfFailures checks that failures are drawn where they happened, and beyond maxSteps.
func TestLadderOfFailures(t *testing.T) {
	rec := &Record{Header: Header{Error: "the QP is broken", FailedEnd: EndServer, Client: Part{Present: true}, Server: Part{Present: true, Device: "rxe0"}}}
	for range 100 {
		rec.Events = append(rec.Events, Event{End: EndClient, Event: "wr.completed", Attrs: []slog.Attr{slog.Int("wr_id", 7), slog.String("status", "IBV_WC_SUCCESS"), slog.String("opcode", "IBV_WC_SEND")}})
	}
	rec.Events = append(rec.Events,
		Event{End: EndClient, Event: "wr.completed", Attrs: []slog.Attr{slog.Int("wr_id", 8), slog.String("status", "IBV_WC_RETRY_EXC_ERR")}},
		Event{End: EndServer, Event: "qp.transition", Message: "INIT→RTR", Attrs: []slog.Attr{slog.String("error", "EINVAL")}})
	want := `       client                                                  server on rxe0
          │ completion SEND                                          │
          │ … 99 more like these                                     │
          │ completion 8, IBV_WC_RETRY_EXC_ERR                       │
          │                                          refused: EINVAL │INIT→RTR
          │                                                        ╳ │
the server failed: the QP is broken
`
	if got := ladderOf(t, rec); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestLadderIsBounded checks that a peer cannot make a ladder endless.
func TestLadderIsBounded(t *testing.T) {
	rec := &Record{}
	for n := range 3 * maxEndRows {
		rec.Events = append(rec.Events, Event{End: EndServer, Event: "qp.transition", Message: strconv.Itoa(n), Attrs: []slog.Attr{slog.String("error", "no")}})
	}
	got := ladderOf(t, rec)
	if n := strings.Count(got, "\n"); n != maxEndRows+3 || !strings.Contains(got, "… 1000 more like these │") {
		t.Errorf("%d lines:\n%s", n, got)
	}
}

// TestLadderOfALongRun checks that a ladder says how many events its record had no space for.
func TestLadderOfALongRun(t *testing.T) {
	kept := NewRecorder(EndClient, 2000)
	for n := range 100 {
		slog.New(kept).Info(strconv.Itoa(n), "event", "qp.transition")
	}
	rec, err := NewRecord(Header{Server: Part{Why: "test"}}, kept, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := ladderOf(t, rec)
	if want := fmt.Sprintf("\n          │ … %d events are left out ", rec.Client.Dropped); rec.Client.Dropped == 0 || !strings.Contains(got, want) || !strings.Contains(got, "        99│") {
		t.Errorf("%d dropped:\n%s", rec.Client.Dropped, got)
	}
}

func TestLadderColours(t *testing.T) {
	for name, rec := range recorded(t) {
		var out strings.Builder
		if err := rec.WriteLadder(&out, true); err != nil {
			t.Fatal(err)
		}
		got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(out.String(), "")
		if plain := ladderOf(t, rec); got != plain || out.String() == plain {
			t.Errorf("%s: without its colours\n%s\nwant\n%s", name, got, plain)
		}
		if !strings.Contains(out.String(), "\x1b["+colourState+"mRESET→INIT\x1b[0m") {
			t.Errorf("%s: %q", name, &out)
		}
	}
}

func TestLadderReportsAWriteThatFails(t *testing.T) {
	if err := (&Record{}).WriteLadder(fullDisk{}, false); !errors.Is(err, errFull) {
		t.Error(err)
	}
}
