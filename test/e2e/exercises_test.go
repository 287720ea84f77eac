package e2e

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// exercise is one run of a job, and what both ends must tell of it. The same
// table runs on the device under test, and between the software device and
// rdma_rxe each way round.
type exercise struct {
	name   string
	server []string // flags
	client []string // flags
	// what each end must tell, in this order among the rest
	serverTells, clientTells []telling
	// more has what a telling cannot say; nil is nothing more
	more  func(t *testing.T, c, s *process)
	once  bool      // a server would refuse it the second time
	crowd []telling // what the client tells if it is one of many; nil: the same
}

// telling is a record: its event, and attributes as key, value, …, where a value
// may be a part of the attribute's and a number is compared as one.
type telling struct {
	event string
	attrs []any
}

func says(event string, attrs ...any) telling { return telling{event, attrs} }

// exercises returns a run of every job; those with files make them in t's own
// directory.
func exercises(t *testing.T) []exercise {
	return slices.Concat(sendExercises(), writeReadExercises(), writeImmExercises(), exchangeExercises(), atomicExercises(),
		bulkExercises(), fileExercises(t), benchExercises())
}

func sendExercises() []exercise {
	return []exercise{{
		name:        "send",
		client:      []string{"--job", "send", "-s", "grüße, 世界"},
		serverTells: []telling{says("wr.completed", "opcode", "IBV_WC_RECV", "byte_len", 15), says("message.received", "text", "grüße, 世界"), says("wr.completed", "opcode", "IBV_WC_SEND")},
		clientTells: []telling{says("wr.posted", "verb", "ibv_post_send", "bytes", 15), says("message.received", "text", "the server received 15 bytes: grüße, 世界")},
	}}
}

func writeReadExercises() []exercise {
	run := func(name, text string, flags ...string) exercise {
		return exercise{
			name:   "write-read, " + name,
			client: append([]string{"--job", "write-read", "-s", text}, flags...),
			clientTells: []telling{
				says("region.known", "msg", "remote region buffer"),
				says("wr.posted", "msg", "post RDMA_WRITE", "bytes", len(text)),
				says("wr.completed", "opcode", "IBV_WC_RDMA_WRITE", "status", "IBV_WC_SUCCESS"),
				says("wr.posted", "msg", "post RDMA_READ", "bytes", len(text)),
				says("wr.completed", "opcode", "IBV_WC_RDMA_READ", "byte_len", len(text)),
				says("text.read", "text", text),
				says("buffers.match", "msg", "SUCCESS, source and destination buffers match", "bytes", len(text)),
			},
			serverTells: []telling{
				says("object.made", "access", "LOCAL_WRITE|REMOTE_WRITE|REMOTE_READ"),
				says("region.holds", "text", text[:min(len(text), 256)]),
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

// check compares what two processes that have ended told with what they must.
func (e exercise) check(t *testing.T, c, s *process) {
	t.Helper()
	c.told(t, e.clientTells)
	s.told(t, e.serverTells)
	if e.more != nil {
		e.more(t, c, s)
	}
}

// told checks that a process has told these, in this order among the rest, and
// that it is done.
func (p *process) told(t *testing.T, all []telling) {
	t.Helper()
	rest := p.records
	for _, want := range append(all[:len(all):len(all)], says("run.done")) {
		i := slices.IndexFunc(rest, want.matches)
		if i < 0 {
			t.Errorf("%s did not tell, or not in this order: %s %v", p.name, want.event, want.attrs)
			continue
		}
		rest = rest[i+1:]
	}
}

func (w telling) matches(r record) bool {
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

// Every job, on the device under test, and its record.
func TestJobs(t *testing.T) {
	noLeak(t)
	for _, e := range exercises(t) {
		t.Run(e.name, func(t *testing.T) { e.run(t) })
	}
}

// run does the exercise on the device under test.
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
