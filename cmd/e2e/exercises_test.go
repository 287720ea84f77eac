package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exercise is one run of a job and the events that both ends must log. The same table runs
// on the device under test, and between the software device and rdma_rxe in both directions.
type exercise struct {
	name   string
	server []string // flags
	client []string // flags
	// the events that each end must log, in this order, among others
	serverEvents, clientEvents []wantEvent
	// more makes further checks; nil: none
	more  func(t *testing.T, c, s *process)
	crowd []wantEvent // the client's events if it is one of many clients; nil: the same
}

// wantEvent is an expected record: its event, and attributes as key, value, … A value matches
// if the attribute's value contains it; numbers are compared as numbers.
type wantEvent struct {
	event string
	attrs []any
}

func wants(event string, attrs ...any) wantEvent { return wantEvent{event, attrs} }

// exercises returns runs of every job. Runs with files create them in a directory of t.
func exercises(t *testing.T) []exercise {
	return slices.Concat(sendExercises(), writeReadExercises(), writeImmExercises(), exchangeExercises(), atomicExercises(),
		bulkExercises(), fileExercises(t), benchExercises())
}

func sendExercises() []exercise {
	return []exercise{{
		name:         "send",
		client:       []string{"--job", "send", "-s", "grüße, 世界"},
		serverEvents: []wantEvent{wants("wr.completed", "opcode", "IBV_WC_RECV", "byte_len", 15), wants("message.received", "text", "grüße, 世界"), wants("wr.completed", "opcode", "IBV_WC_SEND")},
		clientEvents: []wantEvent{wants("wr.posted", "verb", "ibv_post_send", "bytes", 15), wants("message.received", "text", "the server received 15 bytes: grüße, 世界")},
	}}
}

func writeReadExercises() []exercise {
	run := func(name, text string, flags ...string) exercise {
		return exercise{
			name:   "write-read, " + name,
			client: append([]string{"--job", "write-read", "-s", text}, flags...),
			clientEvents: []wantEvent{
				wants("region.known", "msg", "remote region buffer"),
				wants("wr.posted", "msg", "post RDMA_WRITE", "bytes", len(text)),
				wants("wr.completed", "opcode", "IBV_WC_RDMA_WRITE", "status", "IBV_WC_SUCCESS"),
				wants("wr.posted", "msg", "post RDMA_READ", "bytes", len(text)),
				wants("wr.completed", "opcode", "IBV_WC_RDMA_READ", "byte_len", len(text)),
				wants("text.read", "text", text),
				wants("buffers.match", "msg", "SUCCESS, source and destination buffers match", "bytes", len(text)),
			},
			serverEvents: []wantEvent{
				wants("object.made", "access", "LOCAL_WRITE|REMOTE_WRITE|REMOTE_READ"),
				wants("region.holds", "text", text[:min(len(text), 256)]),
			},
			more: func(t *testing.T, _, s *process) {
				if r := s.find("wr.completed"); r != nil {
					t.Errorf("the server saw a completion: %v", r)
				}
			},
		}
	}
	return []exercise{
		run("a text", "client-wrote-this"),
		run("UTF-8", "你好，我在测试RDMA", "--size", "64"),
		run("nothing", ""),
		run("all of the region", strings.Repeat("x", 300), "--size", "300"),
		run("many packets", strings.Repeat("0123456789abcdef", 6400), "--size", "1M"),
	}
}

// check compares the events of two processes that have ended with the expected events.
func (e exercise) check(t *testing.T, c, s *process) {
	t.Helper()
	c.logged(t, e.clientEvents)
	s.logged(t, e.serverEvents)
	if e.more != nil {
		e.more(t, c, s)
	}
}

// logged checks that a process has logged the events in all, in this order, among others, and
// that its job is done.
func (p *process) logged(t *testing.T, all []wantEvent) {
	t.Helper()
	rest := p.recorded()
	for _, want := range append(all[:len(all):len(all)], wants("run.done")) {
		i := slices.IndexFunc(rest, want.matches)
		if i < 0 {
			t.Errorf("%s did not log, or not in this order: %s %v", p.name, want.event, want.attrs)
			continue
		}
		rest = rest[i+1:]
	}
}

func (w wantEvent) matches(r record) bool {
	if r.str("event") != w.event {
		return false
	}
	for i := 0; i < len(w.attrs); i += 2 {
		key := w.attrs[i].(string)
		switch want := w.attrs[i+1].(type) {
		case string:
			if !strings.Contains(r.str(key), want) {
				return false
			}
		case int:
			if n, ok := r[key].(float64); !ok || n != float64(want) {
				return false
			}
		default:
			if fmt.Sprint(r[key]) != fmt.Sprint(want) {
				return false
			}
		}
	}
	return true
}

// TestJobs runs every job on the device under test and checks its record.
func TestJobs(t *testing.T) {
	noLeak(t)
	for _, e := range exercises(t) {
		t.Run(e.name, func(t *testing.T) { e.run(t) })
	}
}

// run runs the exercise on the device under test.
func (e exercise) run(t *testing.T) {
	t.Helper()
	s := serve(t, append([]string{"--once"}, e.server...)...)
	file := filepath.Join(t.TempDir(), "record")
	c := s.client(t, append(e.client, "--record", file)...)
	c.succeeds()
	s.succeeds()
	e.check(t, c, s.process)
	checkRecord(t, file, c, s.process)
	for _, p := range []*process{c, s.process} {
		checkTransitions(t, p)
	}
}
