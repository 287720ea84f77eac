package e2e

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// readRecord reads the file of --record. Each line must match docs/record.md. The folder must
// have no other file.
func readRecord(t *testing.T, file string) *trace.Record {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rec, err := trace.ReadRecord(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	checkSchema(t, text)
	left, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
	return rec
}

// kind is a line of docs/record.md.
type kind struct {
	path, verb       string   // a verb of anyVerb is any
	needed, possible []string // attributes
}

const anyVerb = "any"

// kinds reads the lists below "The kinds of events", by name.
func kinds(t *testing.T) map[string][]kind {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "record.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### The kinds of events\n")
	section, _, _ = strings.Cut(section, "\n## ")
	code := regexp.MustCompile("`([^`]+)`")
	names := func(text string) (list []string) {
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			list = append(list, m[1])
		}
		return list
	}
	all, path := map[string][]kind{}, ""
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "#### ") {
			path = strings.Join(names(line), "")
		}
		item, is := strings.CutPrefix(line, "- ")
		if !is {
			continue
		}
		text, attributes, _ := strings.Cut(item, ": ")
		head, _, _ := strings.Cut(text, ",")
		event := names(head) // and its verb
		k := kind{path: path, verb: strings.Join(event[1:], "")}
		if strings.HasSuffix(head, " any verb") {
			k.verb = anyVerb
		}
		needed, _, _ := strings.Cut(attributes, "sometimes")
		k.needed, k.possible = names(needed), names(attributes)
		all[event[0]] = append(all[event[0]], k)
	}
	if len(all) < 60 {
		t.Fatalf("docs/record.md: %d kinds of events", len(all))
	}
	return all
}

var timeForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$`)

// checkSchema compares a file with docs/record.md, without the code of the reader.
func checkSchema(t *testing.T, file []byte) {
	t.Helper()
	known := kinds(t)
	lines := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	names := func(number int, object map[string]any, needed, possible []string) {
		t.Helper()
		for name := range object {
			if !slices.Contains(needed, name) && !slices.Contains(possible, name) {
				t.Errorf("line %d has %q, which the schema does not know: %s", number, name, lines[number-1])
			}
		}
		for _, name := range needed {
			if _, ok := object[name]; !ok {
				t.Errorf("line %d has no %q: %s", number, name, lines[number-1])
			}
		}
	}
	for i, line := range lines {
		var object map[string]any
		if err := json.Unmarshal(line, &object); err != nil {
			t.Fatalf("line %d: %v: %s", i+1, err, line)
		}
		if i == 0 {
			names(1, object, []string{"schema", "version", "job", "done", "client", "server"}, []string{"error", "failed_end", "clock"})
			for _, end := range []string{"client", "server"} {
				names(1, object[end].(map[string]any), []string{"present", "events", "dropped"}, []string{"why", "program", "host", "device"})
			}
			if clock, ok := object["clock"].(map[string]any); ok {
				names(1, clock, []string{"reference", "method", "rounds", "offset_ns", "uncertainty_ns"}, nil)
			}
			continue
		}
		names(i+1, object, []string{"time", "level", "msg", "end", "who", "event"}, []string{"verb", "path", "attrs"})
		text := record(object).str
		if !timeForm.MatchString(text("time")) || !strings.HasPrefix(text("who"), text("end")) {
			t.Errorf("line %d: %s", i+1, line)
		}
		rows, path, verb := known[text("event")], text("path"), text("verb")
		at := slices.IndexFunc(rows, func(k kind) bool { return k.path == path && (k.verb == verb || k.verb == anyVerb && verb != "") })
		if at < 0 {
			t.Errorf("line %d: docs/record.md has no %q with the path %q and the verb %q", i+1, text("event"), path, verb)
			continue
		}
		attrs, _ := object["attrs"].(map[string]any)
		names(i+1, attrs, rows[at].needed, rows[at].possible)
	}
}

// of returns the events of one kind of one end.
func of(rec *trace.Record, end, event string) (found []trace.Event) {
	for _, e := range rec.Events {
		if e.End == end && e.Event == event {
			found = append(found, e)
		}
	}
	return found
}

func moves(rec *trace.Record, end string) string {
	var list []string
	for _, e := range of(rec, end, "qp.transition") {
		list = append(list, e.Attr("from").String()+"→"+e.Attr("to").String())
	}
	return strings.Join(list, " ")
}

// checkRecord checks the record of a job that succeeded. It must have the events of both ends,
// from TCP to the last freed object, and no effect before its cause.
func checkRecord(t *testing.T, file string, c, s *process) {
	t.Helper()
	rec := readRecord(t, file)
	checkHalves(t, rec)
	if rec.Client.Dropped == 0 && rec.Server.Dropped == 0 {
		checkSameEvents(t, rec, c, s)
		checkCauses(t, rec)
	}
}

func checkHalves(t *testing.T, rec *trace.Record) {
	t.Helper()
	host, _ := os.Hostname()
	if !rec.Done || rec.Error != "" || rec.Job == "" || rec.Clock == nil || rec.Clock.Rounds < 8 { // offsets and uncertainties: TestClockBound in cmd/internal/view/trace
		t.Errorf("header %+v, clock %+v", rec.Header, rec.Clock)
	}
	for end, half := range map[string]trace.Part{"client": rec.Client, "server": rec.Server} {
		if !half.Present || half.Host != host || half.Device != device || !strings.HasPrefix(half.Program, "rdma_"+end+" ") {
			t.Errorf("%s: %+v", end, half)
		}
		if len(of(rec, end, "qp.dump")) == 0 {
			t.Errorf("%s: no dumps, though -v was not given", end)
		}
		made, freed := of(rec, end, "object.made"), of(rec, end, "object.freed")
		if len(made) < 6 || len(made) != len(freed) {
			t.Errorf("%s: %d objects made, %d freed", end, len(made), len(freed))
		}
		if got := moves(rec, end); !strings.HasPrefix(got, "RESET→INIT") || !strings.HasSuffix(got, "→ERR") || !strings.Contains(got, "RTR→RTS") {
			t.Errorf("%s: %s", end, got)
		}
	}
}

// checkSameEvents compares a record with the output of both ends. Except for dumps they are the
// same. The record ends before the event of its own writing, and the server's part ends
// before the end of its run. The server's start is not part of a client's record.
func checkSameEvents(t *testing.T, rec *trace.Record, c, s *process) {
	t.Helper()
	servers := []string{"device.opened", "port.queried", "server.listening", "server.unauthenticated", "server.stopped", "run.done"}
	for end, p := range map[string]*process{"client": c, "server": s} {
		var logged, kept []string
		for _, r := range p.recorded() {
			if event := r.str("event"); event != "record.written" && (end == "client" || !slices.Contains(servers, event)) {
				logged = append(logged, event+" "+r.str("msg"))
			}
		}
		for _, e := range rec.Events {
			if e.End == end && e.Level >= slog.LevelInfo {
				kept = append(kept, e.Event+" "+e.Message)
			}
		}
		slices.Sort(logged)
		slices.Sort(kept)
		if !slices.Equal(logged, kept) {
			t.Errorf("%s logged\n%q\nand the record has\n%q", end, logged, kept)
		}
	}
}

// checkCauses checks that a message was sent before it was received. The times of both ends
// may differ by the uncertainty.
func checkCauses(t *testing.T, rec *trace.Record) {
	t.Helper()
	// The nth effect is not before the nth cause.
	before := func(what string, causes, effects []trace.Event) {
		t.Helper()
		for i, effect := range effects {
			if cause := causes[i]; effect.Time.Before(cause.Time.Add(-rec.Clock.Uncertainty)) {
				t.Errorf("%s %d: %q at %v, %q at %v; uncertainty %v", what, i, cause.Message, cause.Time, effect.Message, effect.Time, rec.Clock.Uncertainty)
			}
		}
	}
	for _, way := range []struct{ from, to string }{{"client", "server"}, {"server", "client"}} {
		messages := func(end string, sent bool) (list []trace.Event) {
			for _, e := range of(rec, end, "oob.message") {
				if e.Attr("sent").Bool() == sent {
					list = append(list, e)
				}
			}
			return list
		}
		sent, received := messages(way.from, true), messages(way.to, false)
		if len(sent) < 5 || len(sent) != len(received) {
			t.Fatalf("%d messages sent to the %s, %d received", len(sent), way.to, len(received))
		}
		before("messages to the "+way.to, sent, received)
		// Requests that consume a receive of the other end, and the completions there.
		var posted, completed []trace.Event
		for _, e := range of(rec, way.from, "wr.posted") {
			if e.Verb == "ibv_post_send" && (strings.Contains(e.Message, "SEND") || strings.Contains(e.Message, "IMM")) {
				posted = append(posted, e)
			}
		}
		for _, e := range of(rec, way.to, "wr.completed") {
			if strings.HasPrefix(e.Attr("opcode").String(), "IBV_WC_RECV") {
				completed = append(completed, e)
			}
		}
		if len(completed) <= len(posted) { // otherwise a job logs several posts as one
			before("work requests to the "+way.to, posted, completed)
		}
	}
	// No end sends before both are in RTS.
	for _, end := range []string{"client", "server"} {
		rts := slices.IndexFunc(rec.Events, func(e trace.Event) bool { return e.End == end && e.Attr("to").String() == "RTS" })
		for _, e := range rec.Events {
			if e.Event == "wr.posted" && e.Verb == "ibv_post_send" && e.Time.Before(rec.Events[rts].Time.Add(-rec.Clock.Uncertainty)) {
				t.Errorf("%v is before %v", e, rec.Events[rts])
			}
		}
	}
}

// TestRecordsSideBySide checks that each of several clients gets the server's events of its own
// connection.
func TestRecordsSideBySide(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	files := make([]string, 8)
	var clients []*process
	for i := range files {
		files[i] = filepath.Join(t.TempDir(), "record")
		clients = append(clients, s.client(t, "--record", files[i]))
	}
	for _, c := range clients {
		c.succeeds()
	}
	s.held.expect(t, s)
	s.stops()
	seen := map[string]bool{}
	for _, file := range files {
		rec := readRecord(t, file)
		checkHalves(t, rec)
		var who string
		tuples := map[string]string{}
		for _, e := range rec.Events {
			if e.End == "server" {
				if who != "" && e.Who != who {
					t.Errorf("events of %s and of %s", who, e.Who)
				}
				who = e.Who
			}
			if e.Event == "peer.tuple" {
				tuples[e.End+e.Attr("side").String()] = e.Attr("qpn").String()
			}
		}
		if tuples["clientlocal"] != tuples["serverremote"] || tuples["clientremote"] != tuples["serverlocal"] || len(tuples) != 4 {
			t.Errorf("%s: %v", who, tuples)
		}
		if seen[who] {
			t.Errorf("%s twice", who)
		}
		seen[who] = true
	}
}

// TestRecordWhenTheServerIsKilled checks that the record then has the client's events and the
// reason.
func TestRecordWhenTheServerIsKilled(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	check := func(t *testing.T, rec *trace.Record, c *process) {
		t.Helper()
		if rec.Done || rec.Error == "" || !strings.Contains(c.stderr.String(), rec.Error) || !rec.Client.Present ||
			rec.Server.Present || rec.Server.Why != "the run failed before it could be fetched" || rec.Clock != nil {
			t.Errorf("%+v", rec.Header)
		}
		if r := c.find("record.written", "level", "WARN"); r == nil || r.str("why") != rec.Server.Why {
			t.Errorf("logged %v", r)
		}
	}
	t.Run("before its hello", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "record")
		s := serve(t)
		s.signal(syscall.SIGSTOP)
		c := s.client(t, "--record", file)
		c.event("oob.message", "msg", "sent hello")
		s.signal(os.Kill)
		c.fails(1, "the connection", "look at its output")
		rec := readRecord(t, file)
		check(t, rec, c)
		if got := moves(rec, "client"); got != "" {
			t.Errorf("moves %s", got)
		}
	})
	t.Run("in the midst", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "record")
		s := serve(t)
		r := relayTo(t, onePlace(), s.port, held{theServer, oob.TypeBarrier, "receives posted"})
		c := start(t, "rdma_client", "--json", "--record", file, ipv4, device, r.port)
		testkit.Receive(t, r.reached, "barrier of the server")
		s.signal(os.Kill)
		s.wait()
		r.release()
		c.fails(1)
		rec := readRecord(t, file)
		check(t, rec, c)
		if got := moves(rec, "client"); !strings.HasPrefix(got, "RESET→INIT") || !strings.HasSuffix(got, "→ERR") {
			t.Errorf("moves %s", got)
		}
	})
	t.Run("in RTS", func(t *testing.T) { // this server keeps no records, like an old release
		file := filepath.Join(t.TempDir(), "record")
		m := listenMute(t)
		c := m.client(t, "--record", file)
		testkit.Receive(t, m.conn, "the client's connection").Close()
		c.fails(1, "closed the connection")
		rec := readRecord(t, file)
		if !strings.Contains(rec.Error, "closed the connection") || !strings.Contains(rec.Server.Why, "keeps no records") || rec.Server.Program != "e2e" {
			t.Errorf("%+v", rec.Header)
		}
		if got := moves(rec, "client"); got != "RESET→INIT INIT→RTR RTR→RTS RTS→ERR" {
			t.Errorf("moves %s", got)
		}
		failed := slices.IndexFunc(rec.Events, func(e trace.Event) bool { return e.Event == event.JobFailed.Name() })
		moved := slices.IndexFunc(rec.Events, func(e trace.Event) bool { return strings.HasSuffix(e.Message, "→ERR") })
		if failed < 0 || failed > moved || !strings.Contains(rec.Events[failed].Message, rec.Error) {
			t.Errorf("the failure is event %d, and the move to ERR %d", failed, moved)
		}
	})
}

// TestRecordOfFailedRun checks that a failed run has a record too.
func TestRecordOfFailedRun(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, "--max-size", "10")
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"refused":   {[]string{"--size", "1M", ipv4, device, s.port}, "the client asks for"},
		"no device": {[]string{ipv4, "nosuch0", s.port}, "nosuch0"},
		"no server": {[]string{ipv4, device, freePort(t)}, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "record")
			start(t, "rdma_client", append([]string{"--json", "--record", file}, test.args...)...).fails(1, test.want)
			if rec := readRecord(t, file); rec.Done || !strings.Contains(rec.Error, test.want) {
				t.Errorf("%+v", rec.Header)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "record")
		c := listenMute(t).client(t, "--record", file)
		c.signal(os.Interrupt)
		c.fails(130, "stopped by SIGINT")
		if rec := readRecord(t, file); !strings.Contains(rec.Error, "stopped by SIGINT") || !strings.HasSuffix(moves(rec, "client"), "RTS→ERR") {
			t.Errorf("%+v", rec.Header)
		}
	})
	s.stillServesTen(t)
	s.stops()
}

func (s *server) stillServesTen(t *testing.T) {
	t.Helper()
	s.client(t, "--size", "10", "-s", "ten bytes.").succeeds()
	s.held.expect(t, s)
}
