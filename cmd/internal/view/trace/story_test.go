package trace

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/qpstate"
)

// storyOf is the story of what log gets.
func storyOf(colour bool, run func(log *slog.Logger)) string {
	var out bytes.Buffer
	s := NewStory(&out, colour)
	run(slog.New(s))
	s.Flush()
	return out.String()
}

// checkStory compares a story and looks at the width of its lines.
func checkStory(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(got) {
		if n := columns.Of(strings.TrimSuffix(line, "\n")); n > storyWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func made(log *slog.Logger, verb, text string, attrs ...any) {
	_, object, _ := strings.Cut(text, " ")
	log.Info(text, append([]any{"event", "object.made", "verb", verb, "object", object}, attrs...)...)
}

func transition(log *slog.Logger, qpn, from, to, mask string, attrs ...any) {
	log.Info(from+"→"+to, "event", "qp.transition", "verb", "ibv_modify_qp", "path", "control", "qpn", qpn, "type", "RC",
		"from", from, "to", to, "mask", mask, slog.Group("attr", attrs...))
}

func TestStory(t *testing.T) {
	got := storyOf(false, func(all *slog.Logger) {
		log := all.With("who", "client")
		log.Info("open device soft0 (softroce)", "event", "device.opened", "why", "asked for")
		log.Info("port 1", "event", "port.queried", "state", "IBV_PORT_ACTIVE", "active_mtu", 4096)
		log.Info("sent hello", "event", "oob.message", "sent", true, "message", "hello", "peer", "10.0.0.2:18515")
		log.Info("received hello", "event", "oob.message", "sent", false, "message", "hello", "peer", "10.0.0.2:18515")
		log.Debug("no dump is in a story")
		made(log, "ibv_alloc_pd", "make protection domain")
		made(log, "ibv_create_cq", "make send completion queue", "depth", 17)
		made(log, "ibv_create_cq", "make receive completion queue", "depth", 17)
		made(log, "ibv_create_qp", "make queue pair", "qpn", "0x12", "type", "RC", "state", "RESET")
		transition(log, "0x12", "RESET", "INIT", "0x39", "ACCESS_FLAGS", "REMOTE_WRITE|REMOTE_READ", "PKEY_INDEX", "0", "PORT", "1")
		made(log, "ibv_reg_mr", "register memory region to send", "addr", "0x7f00", "length", 64, "lkey", "0x5", "rkey", "0x0", "access", "LOCAL_WRITE")
		made(log, "ibv_reg_mr", "register memory region for the client", "addr", "0x7f00", "length", 64, "lkey", "0x6", "rkey", "0x6", "access", "LOCAL_WRITE|REMOTE_READ")
		for id := range 2 {
			log.Info("post RECV", "event", "wr.posted", "verb", "ibv_post_recv", "wr_id", id, "bytes", 64)
		}
		log.Info("local endpoint", "event", "peer.tuple", "side", "local", "qpn", "0x12", "psn", "0x36ff88", "gid", "fe80:1111:2222:3333:4444:5555:6666:7777", "lid", 0)
		log.Info("remote endpoint", "event", "peer.tuple", "side", "remote", "qpn", "0x395ae6", "psn", "0x9842a6", "gid", "::1", "lid", 7)
		log.Info("local region buffer", "event", "region.known", "side", "local", "name", "buffer", "addr", "0x7f00", "rkey", "0x6", "length", 64)
		transition(log, "0x12", "RTR", "RTS", "0x12e01", "TIMEOUT", "14 (67.108864ms)", "RETRY_CNT", "7", "RNR_RETRY", "7 (forever)", "NEW_BIT", "3")
		log.Info("post SEND", "event", "wr.posted", "verb", "ibv_post_send", "path", "data", "wr_id", 2, "bytes", 4, "flags", "IBV_SEND_SIGNALED")
		log.Info("message sent", "event", "message.sent", "path", "data", "text", "a\x1b\"", "bytes", 3)
		log.Info("completion", "event", "wr.completed", "path", "data", "wr_id", 2, "status", "IBV_WC_SUCCESS", "opcode", "IBV_WC_SEND")
		log.Info("completion", "event", "wr.completed", "path", "data", "wr_id", 3, "status", "IBV_WC_WR_FLUSH_ERR")
		transition(log, "0x12", "RTS", "ERR", "0x1")
		log.Info("drained: 1 work requests flushed", "event", "qp.drained", "flushed", 1)
		log.Info("free queue pair", "event", "object.freed", "verb", "ibv_destroy_qp", "object", "queue pair")
		log.Info("free memory", "event", "object.freed", "verb", "ibv_dereg_mr", "object", "memory")
		log.Info("done: the job succeeded", "event", "run.done", "job", "send")
	})
	checkStory(t, got, `open        device soft0 (softroce), asked for; port 1 IBV_PORT_ACTIVE, MTU 4096
TCP         connected to 10.0.0.2:18515
make        protection domain, 2 completion queues, queue pair 0x12 (RC, RESET)
RESET→INIT  mask=0x39: receives can be posted; port 1, P_Key index 0, the peer
            may WRITE and READ
register    memory region to send (64 bytes, lkey=0x5)
register    memory region for the client (64 bytes, rkey=0x6, the peer may READ)
post        2 RECVs (64 bytes each)
endpoint    QPN       PSN       GID
  local     0x12      0x36ff88  fe80:1111:2222:3333:4444:5555:6666:7777
  remote    0x395ae6  0x9842a6  ::1  LID 7
RTR→RTS     mask=0x12e01: ready to send; resends after 67.1ms without an ACK, up
            to 7 times, and forever if the peer has no RECV, NEW_BIT=3
post        SEND (wr_id=2, 4 bytes)
message     sent: "a\x1b\"" (3 bytes)
complete    SEND (wr_id=2, IBV_WC_SUCCESS)
complete    request (wr_id=3, IBV_WC_WR_FLUSH_ERR)
RTS→ERR     mask=0x1: outstanding work requests are flushed: 1 of them
free        2 objects, the last made first
done        the job succeeded
`)
}

// Transitions of several queue pairs are one passage, which names the bits whose values
// are not the same; of their endpoints the first two pairs are shown.
func TestStoryOfManyQueuePairs(t *testing.T) {
	got := storyOf(false, func(log *slog.Logger) {
		for _, qpn := range []string{"0x000001", "0x000002", "0x000003"} {
			for _, side := range []string{"local", "remote"} {
				log.Info(side+" endpoint", "event", "peer.tuple", "side", side, "qpn", qpn, "psn", "0x000009", "gid", "::1", "lid", 0)
			}
		}
		for _, qpn := range []string{"0x1", "0x2", "0x3"} {
			log.Info("IBV_EVENT_QP_LAST_WQE_REACHED on QP "+qpn, "event", "async.event", "verb", "ibv_get_async_event", "fatal", false)
			transition(log, qpn, "INIT", "RTR", "0x129181", "PATH_MTU", "1024", "DEST_QPN", qpn)
		}
	})
	checkStory(t, got, `endpoint    QPN       PSN       GID
  local     0x000001  0x000009  ::1
  remote    0x000001  0x000009  ::1
  local     0x000002  0x000009  ::1
  remote    0x000002  0x000009  ::1
            and 1 more pairs; -v shows them
INIT→RTR    mask=0x129181 for 3 queue pairs: ready to receive; path MTU 1024,
            each with its own DEST_QPN
`)
}

// The story distinguishes the clients of a server and shows failures in full. An unknown event
// has the beginning of its kind as its label. Rows of a table keep their form.
func TestStoryOfAServer(t *testing.T) {
	s := storyOf(false, func(log *slog.Logger) {
		log.Info("listening on [::]:18515 for rdma_client", "event", "server.listening", "who", "server", "address", "[::]:18515")
		log.Info("client connected by TCP", "event", "client.accepted", "who", "server/1", "peer", "10.0.0.1:5")
		log.Info("the client chooses the job toy", "event", "job.chosen", "who", "server/12", "params", map[string]string{"size\x1b": "\x1b[2J"})
		log.Info("a toy is wound up", "event", "toy.wound", "who", "server/12", "turns", 7, "broken", false)
		log.Info(" #bytes   #iterations   "+strings.Repeat("x", 80), "event", "bench.header", "who", "server/12")
		log.Warn("nothing has completed", "event", "bulk.stall", "who", "server/12", "bytes", 8)
		log.Error("client failed", "event", "client.failed", "who", "server/12", "error", "the \x1b key "+strings.Repeat("k", 100)+" is wrong", "peer", "10.0.0.1:6")
		transition(log.With("who", "server/1"), "0x1", "INIT", "RTR", "0x1")
		log.Info("INIT→RTR", "event", "qp.transition", "verb", "ibv_modify_qp", "who", "server/1", "qpn", "0x1", "type", "RC", "mask", "0x1", "error", "EINVAL")
	})
	table := " #bytes   #iterations   " + strings.Repeat("x", 80) + "\n"
	if !strings.Contains(s, table) {
		t.Errorf("the table is not as it was:\n%s", s)
	}
	checkStory(t, strings.Replace(s, table, "", 1), `listen      on [::]:18515 for rdma_client
[1] accept      client connected by TCP (peer 10.0.0.1:5)
[12] job         the client chooses the job toy ("size\x1b"="\x1b[2J")
[12] toy         a toy is wound up (turns=7)
[12] warning     nothing has completed (8 bytes)
[12] failed      "the \x1b key
[12]             kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk
[12]             kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk is wrong" (peer
[12]             10.0.0.1:6)
[1] INIT→RTR    mask=0x1: ready to receive
[1] refused     INIT→RTR: EINVAL (qpn=0x1, type=RC, mask=0x1)
`)
}

// Of many posts and completions, and of many events of a kind, a story shows the first,
// counts the rest, and shows every failure.
func TestStoryCounts(t *testing.T) {
	many := storyOf(false, func(log *slog.Logger) {
		for range 100 {
			log.Info("added", "event", "atomic.done", "path", "data")
			log.Info(" 2  3", "event", "bench.result", "path", "data")
		}
	})
	if n := strings.Count(many, "added\n"); n != maxOfAKind || strings.Count(many, " 2  3\n") != 100 || !strings.HasSuffix(many, "…           92 more like these; -v shows them\n") {
		t.Errorf("%d:\n%s", n, many)
	}
	got := storyOf(false, func(log *slog.Logger) {
		for id := range 30 {
			status := "IBV_WC_SUCCESS"
			if id == 20 {
				status = "IBV_WC_RETRY_EXC_ERR"
			}
			log.Info("completion", "event", "wr.completed", "wr_id", id, "status", status, "opcode", "IBV_WC_SEND")
		}
	})
	if n := strings.Count(got, "\n"); n != maxRequests+2 || !strings.Contains(got, "IBV_WC_RETRY_EXC_ERR") ||
		!strings.HasSuffix(got, "…           19 more like these; -v shows them\n") {
		t.Errorf("%d lines:\n%s", n, got)
	}
}

// Texts are cut, and wrapped by the columns that a terminal gives them.
func TestStoryOfTexts(t *testing.T) {
	for _, text := range []string{"", strings.Repeat("世界", 50), strings.Repeat("long ", 1000), strings.Repeat("x", 1<<20), strings.Repeat("\u0301", 500), "🌍 grüße", "\u202e"} {
		got := storyOf(false, func(log *slog.Logger) {
			log.Info("message from the client", "event", "message.received", "who", "server/123", "text", text)
		})
		checkStory(t, got, got)
		if n := strings.Count(got, "\n"); n > 6 {
			t.Errorf("%d lines:\n%s", n, got)
		}
		if len(text) < 100 && !strings.Contains(strings.ReplaceAll(got, "\n[123]             ", " "), quoted(text)) {
			t.Errorf("%q is not in:\n%s", text, got)
		}
	}
}

// Colours are around labels, and nothing else differs.
func TestStoryColour(t *testing.T) {
	run := func(log *slog.Logger) {
		transition(log, "0x1", "RESET", "INIT", "0x39", "PORT", "1")
		log.Info("message sent", "event", "message.sent", "path", "data", "text", "\x1b[31m")
		log.Error("client failed", "event", "client.failed", "error", "why")
	}
	plain, colour := storyOf(false, run), storyOf(true, run)
	want := "\x1b[1;36mRESET→INIT\x1b[0m  mask=0x39"
	if !strings.HasPrefix(colour, want) || !strings.Contains(colour, "\x1b[1;31mfailed\x1b[0m") {
		t.Errorf("%q", colour)
	}
	if got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colour, ""); got != plain || strings.Contains(plain, "\x1b") {
		t.Errorf("without its colours %q, want %q", got, plain)
	}
}

// Each state and each mask bit of which a program may give a value has words.
func TestWordsAreComplete(t *testing.T) {
	words := map[string]bool{}
	for _, row := range bitWords {
		if words[row.bit] {
			t.Errorf("%s is there twice", row.bit)
		}
		words[row.bit] = true
	}
	known := 0
	for i := range 32 {
		bit := qpstate.Mask(1) << i
		if bit == qpstate.MaskState || strings.HasPrefix(bit.Name(), "0x") {
			continue
		}
		if known++; !words[bit.Name()] {
			t.Errorf("%s has no words", bit.Name())
		}
		delete(words, bit.Name())
	}
	if known < 15 || len(words) > 0 {
		t.Errorf("%d bits; words of no bit: %v", known, words)
	}
	for _, s := range []qpstate.State{qpstate.Reset, qpstate.Init, qpstate.RTR, qpstate.RTS, qpstate.SQD, qpstate.SQE, qpstate.Error} {
		if stateWords[s.Name()] == "" {
			t.Errorf("%s has no words", s.Name())
		}
	}
}

// Clients of a server that are gone leave nothing behind, and side by side they do not
// break each other's lines.
func TestStoryOfClientsSideBySide(t *testing.T) {
	var out bytes.Buffer
	s := NewStory(&out, false)
	var clients sync.WaitGroup
	for n := range 20 {
		clients.Go(func() {
			log := slog.New(s).With("who", fmt.Sprint("server/", n))
			for range 10 {
				transition(log, "0x1", "INIT", "RTR", "0x1")
				made(log, "ibv_alloc_pd", "make protection domain")
			}
			log.Info("done: all", "event", "run.done")
		})
	}
	clients.Wait()
	if len(s.chapters) != 0 {
		t.Errorf("%d clients are remembered", len(s.chapters))
	}
	for line := range strings.Lines(out.String()) {
		if !regexp.MustCompile(`^\[\d+\] (INIT→RTR|make|done) +\S.*\n$`).MatchString(line) {
			t.Errorf("%q", line)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 20*21 {
		t.Errorf("%d lines", n)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left")

func TestStoryReportsAWriteThatFails(t *testing.T) {
	if err := NewStory(fullDisk{}, false).Handle(t.Context(), slog.Record{Message: "m"}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestTraceWrapsGroups(t *testing.T) {
	var out bytes.Buffer
	var values []any
	for i := range 30 {
		values = append(values, fmt.Sprint("VALUE", i), strings.Repeat("v ", i))
	}
	slog.New(NewNarration(&out, slog.LevelInfo, 0)).Info("QP:", "event", "qp.dump", "who", "client", slog.Group("attr", values...))
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	if len(lines) < 10 {
		t.Errorf("%d lines", len(lines))
	}
	for _, line := range lines[1:] {
		if columns.Of(line) > traceWidth || !strings.HasPrefix(line, strings.Repeat(" ", groupIndent)) {
			t.Errorf("%d columns: %q", columns.Of(line), line)
		}
	}
}

// An exchange job logs each message by its name: the story leaves out the SEND and the
// receive of it unless they fail, and has one line for each state machine.
func TestStoryOfAnExchange(t *testing.T) {
	got := storyOf(false, func(log *slog.Logger) {
		moved := func(machine, from, to string) {
			log.Info("moved", "event", "state.changed", "machine", machine, "from", from, "to", to)
		}
		log.Info("send state A, receive state X", "event", "states.begin", "path", "info")
		log.Info("send MSG_MR", "event", "exchange.message", "path", "data", "rkey", "0x6")
		log.Info("post SEND", "event", "wr.posted", "verb", "ibv_post_send", "path", "data", "wr_id", 3)
		log.Info("completion", "event", "wr.completed", "path", "data", "wr_id", 3, "status", "IBV_WC_SUCCESS", "opcode", "IBV_WC_SEND")
		moved("send", "A", "B")
		log.Info("completion", "event", "wr.completed", "path", "data", "wr_id", 1, "status", "IBV_WC_SUCCESS", "opcode", "IBV_WC_RECV")
		log.Info("received MSG_MR", "event", "exchange.message", "path", "data", "rkey", "0x7")
		moved("receive", "X", "Y")
		log.Info("post RDMA_WRITE", "event", "wr.posted", "verb", "ibv_post_send", "path", "data", "wr_id", 4)
		log.Info("completion", "event", "wr.completed", "path", "data", "wr_id", 4, "status", "IBV_WC_SUCCESS", "opcode", "IBV_WC_RDMA_WRITE")
		moved("send", "B", "C")
		log.Info("completion", "event", "wr.completed", "path", "data", "wr_id", 5, "status", "IBV_WC_RETRY_EXC_ERR")
		transition(log, "0x12", "RTS", "ERR", "0x1")
	})
	checkStory(t, got, `exchange    send MSG_MR (rkey=0x6)
exchange    received MSG_MR (rkey=0x7)
post        RDMA_WRITE (wr_id=4)
complete    RDMA_WRITE (wr_id=4, IBV_WC_SUCCESS)
complete    request (wr_id=5, IBV_WC_RETRY_EXC_ERR)
state       send A→B→C
state       receive X→Y
RTS→ERR     mask=0x1: outstanding work requests are flushed
`)
}

// TestAStoryForgetsStrangers: not each stranger's end is in the log.
func TestAStoryForgetsStrangers(t *testing.T) {
	s := NewStory(new(bytes.Buffer), false)
	log := slog.New(s)
	for i := range 1000 {
		log.Info("sent hello", "event", "oob.message", "who", fmt.Sprintf("server/%d", i), "sent", true, "message", "hello", "peer", "10.0.0.1:5")
	}
	if n := len(s.chapters); n > 0 {
		t.Errorf("the story keeps %d clients that only connected", n)
	}
}
