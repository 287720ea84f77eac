package rc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// prepareAll is prepare for several queue pairs. Each gets one receive. The ID and the slot of the
// receive are the queue pair's index.
func (e *end) prepareAll(c *Conn) (err error) {
	e.Conn = c
	qps := c.QPs()
	if e.mr, err = c.AllocMR("test", (len(qps)+1)*slot, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	c.Share("test", e.mr)
	for i, qp := range qps {
		if err := qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{e.mr.SGE(i*slot, slot)}}}); err != nil {
			return err
		}
	}
	return nil
}

// severalPair connects two ends by n queue pairs each.
func severalPair(t *testing.T, n int, client, server Config) (c, s *end) {
	t.Helper()
	ends := [2]*end{{}, {}}
	client.QPs, server.QPs = n, n
	client.Prepare, server.Prepare = ends[0].prepareAll, ends[1].prepareAll
	pair(t, client, server)
	return ends[0], ends[1]
}

func TestEachOfSeveralQueuePairsReachesItsOwn(t *testing.T) {
	for _, n := range []int{1, 3, oob.MaxEndpoints} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			c, s := severalPair(t, n, Config{}, Config{})
			from, to := c.QPs(), s.QPs()
			if len(from) != n || len(to) != n || from[0] != c.QP() {
				t.Fatalf("%d queue pairs at one end, %d at the other", len(from), len(to))
			}
			psns := make(map[uint32]bool)
			text := c.mr.Bytes()[n*slot:]
			for i, qp := range from {
				psns[c.pairs[i].local.PSN] = true
				if attr, err := qp.Query(qpstate.MaskState | qpstate.MaskDestQPN); err != nil || attr.State != qpstate.RTS || attr.DestQPN != to[i].QPN() {
					t.Errorf("queue pair %d: %v towards %#x, %v; want RTS towards %#x", i, attr.State, attr.DestQPN, err, to[i].QPN())
				}
				length := copy(text, fmt.Sprintf("to queue pair %d", i))
				if err := qp.PostSend([]verbs.SendWR{{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(n*slot, length)}}}); err != nil {
					t.Fatal(err)
				}
				if wc, err := c.WaitSend(t.Context()); err != nil || wc.ID != uint64(i) || wc.QPN != qp.QPN() {
					t.Fatalf("send %d: %+v, %v", i, wc, err)
				}
				wc, err := s.WaitRecv(t.Context())
				if err != nil || wc.ID != uint64(i) || wc.QPN != to[i].QPN() {
					t.Fatalf("receive %d: %+v, %v", i, wc, err)
				}
				if got, want := string(s.mr.Bytes()[i*slot:][:wc.ByteLen]), string(text[:length]); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if n > 1 && len(psns) == 1 {
				t.Error("all queue pairs begin at one PSN")
			}
		})
	}
}

// TestCloseFlushesEveryQueuePair leaves a receive, and a send without a receive at the peer, on each
// queue pair.
func TestCloseFlushesEveryQueuePair(t *testing.T) {
	const n = 5
	records := &recorder{}
	c, s := severalPair(t, n, Config{Logger: slog.New(records)}, Config{})
	for range 2 { // the second of each waits for a receive
		for _, qp := range c.QPs() {
			if err := qp.PostSend([]verbs.SendWR{{ID: 7, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{c.mr.SGE(0, 8)}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range n {
		if _, err := s.WaitRecv(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.WaitSend(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.flushes(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, move := range []string{"RESET→INIT", "INIT→RTR", "RTR→RTS", "RTS→ERR"} {
		if got := records.count(move); got != n {
			t.Errorf("%s was logged %d times, want %d", move, got, n)
		}
	}
	if got := records.count("free queue pair"); got != n {
		t.Errorf("%d queue pairs were freed, want %d", got, n)
	}
	if got, want := records.text("drained"), fmt.Sprintf("drained: %d work requests", 2*n); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %d receives and %d sends flushed", got, n, n)
	}
}

func TestBothEndsMustHaveAsManyQueuePairs(t *testing.T) {
	_, _, cerr, serr := dialPair(t, Config{QPs: 3}, Config{QPs: 2})
	for who, err := range map[string]error{"client": cerr, "server": serr} {
		if err == nil {
			t.Errorf("%s: no error", who)
			continue
		}
		var breach *oob.ProtocolError
		if !errors.As(err, &breach) || !strings.Contains(err.Error(), "3") || !strings.Contains(err.Error(), "2") {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestQueuesThatAreRefused(t *testing.T) {
	dev := softtest.Open(t)
	limits, err := dev.Query()
	if err != nil {
		t.Fatal(err)
	}
	deepest := uint32(limits.MaxQPWR)
	shared := uint32(limits.MaxCQE/oob.MaxEndpoints + 1)
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"fewer than one": {Config{QPs: -1}, "a connection cannot have -1 queue pairs; try: 1 to 64"},
		"too many":       {Config{QPs: oob.MaxEndpoints + 1}, "a connection cannot have 65 queue pairs"},
		"sends":          {Config{Cap: verbs.QPCap{MaxSendWR: deepest}}, fmt.Sprintf("a send queue of %d work requests is more than", deepest)},
		"receives":       {Config{Cap: verbs.QPCap{MaxRecvWR: deepest}}, fmt.Sprintf("a receive queue of %d work requests is more than", deepest)},
		"too many yet":   {Config{QPs: 257, Exchange: swap}, "a connection cannot have 257 queue pairs; try: 1 to 256"},
		"one CQ":         {Config{QPs: oob.MaxEndpoints, OneCQ: true, Cap: verbs.QPCap{MaxSendWR: shared - 4, MaxRecvWR: shared - 4}}, "one completion queue for"},
		"completions":    {Config{QPs: oob.MaxEndpoints, Cap: verbs.QPCap{MaxSendWR: shared}}, "or fewer queue pairs"},
	} {
		if err := c.cfg.Check(dev); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{QPs: 256, Exchange: swap}).Check(dev); err != nil {
		t.Errorf("256 queue pairs by another format: %v", err)
	}
	most := Config{Cap: verbs.QPCap{MaxSendWR: uint32(min(limits.MaxQPWR, limits.MaxCQE)) - drainWRs}}
	if err := most.Check(dev); err != nil {
		t.Errorf("the most that the device has: %v", err)
	}
}

// TestAFailureOfAnyQueuePairIsReported breaks only the last queue pair. Its completions fail, and the
// others still work.
func TestAFailureOfAnyQueuePairIsReported(t *testing.T) {
	const n = 3
	c, _ := severalPair(t, n, Config{}, Config{})
	region, _ := c.PeerRegion("test")
	write := verbs.SendWR{ID: 1, Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: region.Addr, RKey: region.RKey, SGL: []verbs.SGE{c.mr.SGE(0, 8)}}
	beyond := write
	beyond.RemoteAddr = region.Addr + region.Length
	last := c.QPs()[n-1]
	if err := last.PostSend([]verbs.SendWR{beyond, write, write}); err != nil {
		t.Fatal(err)
	}
	var wcs [3]verbs.WC
	for got := 0; got < 3; {
		k, err := c.WaitSends(t.Context(), wcs[got:])
		if err != nil {
			t.Fatal(err)
		}
		got += k
	}
	failure := wcs[0].Err()
	var we *verbs.WCError
	if !errors.As(failure, &we) || we.Status != verbs.WCRemAccessErr || we.QPN != last.QPN() {
		t.Errorf("got %v, want IBV_WC_REM_ACCESS_ERR on QP %#x", failure, last.QPN())
	}
	if err := c.QP().PostSend([]verbs.SendWR{write}); err != nil {
		t.Fatal(err)
	}
	if wc, err := c.WaitSend(t.Context()); err != nil || wc.QPN != c.QP().QPN() {
		t.Errorf("the first queue pair: %+v, %v", wc, err)
	}
}

// recorder is a handler that keeps the texts of the records.
type recorder struct {
	mu    sync.Mutex
	texts []string
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }

func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.texts = append(r.texts, record.Message)
	return nil
}

// count returns the number of records that begin with prefix, and text the first of them.
func (r *recorder) count(prefix string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.texts {
		if strings.HasPrefix(text, prefix) {
			n++
		}
	}
	return n
}

func (r *recorder) text(prefix string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.texts {
		if strings.HasPrefix(text, prefix) {
			return text
		}
	}
	return ""
}
