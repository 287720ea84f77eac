package e2e

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

func atomicExercises() []exercise {
	const fetchAdd, cmpSwap = "ATOMIC_FETCH_AND_ADD", "ATOMIC_CMP_AND_SWP"
	run := func(op string, count, add int, first, second string) exercise {
		sum := count * add
		checked := wants("sum.checked", "msg", "the sum is right", "added", sum, "counter", sum, "low", sum, "high", sum, "exact", true, "right", true)
		return exercise{
			name:   "atomic, " + op,
			client: []string{"--job", "atomic", "--op", op, "--count", strconv.Itoa(count), "--add", strconv.Itoa(add)},
			clientEvents: []wantEvent{
				wants("device.queried", "atomic_cap", "IBV_ATOMIC_HCA"),
				wants("region.known", "msg", "remote region counter", "length", 8),
				wants("wr.posted", "msg", "post "+first, "bytes", 8), wants("atomic.done", "found", 0, "left", add),
				wants("wr.posted", "msg", "post "+second, "bytes", 8), wants("atomic.done", "found", add, "left", 2*add),
				wants("atomics.done", "operations", count, "added", sum, "lost_races", 0, "last_seen", sum),
				checked,
			},
			crowd: []wantEvent{wants("atomics.done", "operations", count, "added", sum), wants("sum.checked", "added", sum, "right", true)},
			serverEvents: []wantEvent{
				wants("object.made", "access", "LOCAL_WRITE|REMOTE_ATOMIC", "length", 8),
				wants("wait.begun", "announced", sum),
				checked,
			},
			more: func(t *testing.T, _, s *process) {
				if r := s.find("wr.completed"); r != nil {
					t.Errorf("the server saw a completion: %v", r)
				}
			},
		}
	}
	return []exercise{
		run("fetch-add", 3, 1, fetchAdd, fetchAdd),
		run("cmp-swap", 3, 1000, cmpSwap, cmpSwap),
		run("both", 100, 999, fetchAdd, cmpSwap),
	}
}

// TestAtomicSideBySide runs eight clients at once on one counter; no add may be lost.
func TestAtomicSideBySide(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	const clients, count = 8, 3000
	s := serve(t, never)
	keeper, add := rawAdder(t, s, "1", "shared") // the counter is kept while it has a client
	var all []*process
	want := 0
	for i := range clients {
		op := []string{"fetch-add", "cmp-swap", "both"}[i%3]
		all = append(all, s.client(t, "--job", "atomic", "--count", strconv.Itoa(count), "--add", strconv.Itoa(i+1), "--op", op, "--counter", "shared"))
		want += count * (i + 1)
	}
	lost, seen := 0.0, 0.0
	for _, c := range all {
		c.succeeds()
		done, checked := c.find("atomics.done"), c.find("sum.checked")
		if done == nil || checked == nil || checked["right"] != true {
			t.Fatalf("%v, %v", done, checked)
		}
		lost += done["lost_races"].(float64)
		seen = max(seen, checked["counter"].(float64))
	}
	t.Logf("%v races lost by %d clients of %d operations", lost, clients, count)
	if seen != float64(want) {
		t.Errorf("the counter's last value is %v, want %d", seen, want)
	}
	add(1)
	want++
	finishAdder(t, keeper, "1")
	s.held.expect(t, s)
	s.stops()
	// The last client to report has the exact sum. Its line may not be the last one, because
	// the server computes a sum before it prints the line.
	checked := s.all("sum.checked")
	if len(checked) != clients+1 {
		t.Fatalf("%d sums checked", len(checked))
	}
	last := slices.MaxFunc(checked, func(a, b record) int { return cmp.Compare(a["low"].(float64), b["low"].(float64)) })
	if last["exact"] != true || last["counter"] != float64(want) {
		t.Errorf("the last sum is %v, want %d", last, want)
	}
}

// TestAtomicClientKilled kills a client during its job. The sum is then unknown, and the
// server reports that to the other clients of its counter. After they have ended, sums are exact again.
func TestAtomicClientKilled(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, never)
	dying := s.client(t, "--job", "atomic", "--count", "1000000", "--counter", "shared")
	dying.event("operations.omitted")
	dying.signal(syscall.SIGSTOP) // so that its job is not over before the other's

	other := s.client(t, "--job", "atomic", "--add", "1000000", "--counter", "shared")
	other.succeeds()
	r := other.find("sum.checked")
	if r == nil || r["right"] != true || r["exact"] != false || r["low"] != 10e6 || r["high"] != 11e6 || !strings.Contains(r.str("msg"), "clients that still run") {
		t.Errorf("while another client works: %v", r)
	}
	kill(t, dying)
	s.event("client.failed")
	settled := s.event("counter.settled", "msg", "1 clients died")
	counter := settled["counter"].(float64)
	if settled["right"] != true || settled["exact"] != false || counter < 10e6+4 || counter > 11e6 {
		t.Errorf("settled: %v", settled)
	}

	after := s.client(t, "--job", "atomic", "--count", "7", "--counter", "shared")
	after.succeeds()
	r = after.find("sum.checked")
	if r == nil || r["exact"] != true || r["counter"] != 7.0 || r["low"] != 7.0 {
		t.Errorf("after it: %v, want exactly 7", r)
	}
	s.held.expect(t, s)
	s.stops()
}

func TestAtomicServerKilled(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	c := s.client(t, never, "--job", "atomic", "--count", "1000000")
	c.event("operations.omitted")
	s.signal(os.Kill)
	s.wait()
	c.fails(1, "operation ", "closed the connection", "look at its output")
}

// rawAdder returns a client in this process, and a function that adds to the counter: its own, or the shared
// one with this name.
func rawAdder(t *testing.T, s *server, announced string, shared ...string) (*rc.Conn, func(add uint64)) {
	t.Helper()
	conn, add, err := tryAdder(t, s, announced, shared...)
	if err != nil {
		t.Fatal(err)
	}
	return conn, add
}

// tryAdder is rawAdder with a server that may refuse.
func tryAdder(t *testing.T, s *server, announced string, shared ...string) (*rc.Conn, func(add uint64), error) {
	t.Helper()
	params := map[string]string{"count": announced, "add": "1"}
	for _, name := range shared {
		params["counter"] = name
	}
	var local *verbs.MR
	conn, err := rc.Dial(testkit.Context(t), s.address(), rc.Config{
		Device: openDevice(t), Job: "atomic", Program: "e2e", Params: params, Timeout: testkit.Limit,
		Prepare: func(c *rc.Conn) (err error) {
			local, err = c.AllocMR("found", 8, verbs.AccessLocalWrite)
			return err
		},
	})
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return conn, func(add uint64) {
		t.Helper()
		counter, _ := conn.PeerRegion("counter")
		wr := verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, Flags: verbs.SendSignaled, SGL: []verbs.SGE{local.SGE(0, 8)},
			RemoteAddr: counter.Addr, RKey: counter.RKey, CompareAdd: add}
		if err := conn.QP().PostSend([]verbs.SendWR{wr}); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.WaitSend(testkit.Context(t)); err != nil {
			t.Fatal(err)
		}
		t.Logf("a stranger found %d and added %d", binary.NativeEndian.Uint64(local.Bytes()), add)
	}, nil
}

// finishAdder ends the job of a rawAdder that has added a sum, and returns the server's verdict.
func finishAdder(t *testing.T, conn *rc.Conn, sum string) (verdict string) {
	t.Helper()
	err := conn.TCP().SendNote(testkit.Context(t), oob.Note{Name: "added", Data: []byte(sum)})
	var n oob.Note
	if err == nil {
		n, err = conn.TCP().RecvNote(testkit.Context(t), "verdict")
	}
	if err == nil {
		err = conn.Finish(testkit.Context(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	return string(n.Data)
}

// TestAtomicMisbehavingClient runs clients that report a wrong sum or an invalid report. Both ends
// must report the error, and the next client's sum must be exact.
func TestAtomicMisbehavingClient(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	tests := []struct {
		name   string
		add    uint64
		report string
		want   []string
	}{
		{"adds more than it reports", 6, "5", []string{"the sum is wrong: the counter holds", "does not report all that it adds"}},
		{"adds less", 4, "5", []string{"the sum is wrong", "; the sum of all adds is"}},
		{"reports another sum", 5, "6", []string{"announced that it would add 5, but reports 6"}},
		{"reports no number", 5, "five", []string{`"five"`, "which is not a number"}},
		{"reports nothing", 0, "", []string{`""`, "which is not a number"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			failures := s.failures()
			conn, add := rawAdder(t, s, "5")
			add(test.add)
			if err := conn.TCP().SendNote(testkit.Context(t), oob.Note{Name: "added", Data: []byte(test.report)}); err != nil {
				t.Fatal(err)
			}
			r := s.nextFailure(failures)
			for _, want := range test.want {
				if !strings.Contains(r.str("error"), want) {
					t.Errorf("the server's error lacks %q: %s", want, r.str("error"))
				}
			}
			conn.Close()
			s.event("counter.settled", "who", r.str("who"))
			c := s.client(t, "--job", "atomic")
			c.succeeds()
			if r := c.find("sum.checked"); r == nil || r["exact"] != true {
				t.Errorf("the next client: %v", r)
			}
		})
	}
	s.held.expect(t, s)
	s.stops()
}

// fallsSilent has an adder that adds nothing, and checks that the server then ends it.
func fallsSilent(t *testing.T, s *server, want string) {
	t.Helper()
	insist(t, want, func() string {
		before := s.failures()
		conn, _, err := tryAdder(t, s, "3")
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		return s.nextFailure(before).str("error")
	})
}

// TestAtomicMoves checks that a client may say that it moves, and that a client without progress or with a wrong
// message fails. That a client that makes progress has no time limit is tested in cmd/internal/job/kit, see
// TestUntilStalled and TestPacketsAreProgress.
func TestAtomicMoves(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, never)
	const adds = 5
	sum := strconv.Itoa(adds)
	conn, add := rawAdder(t, s, sum)
	for range adds {
		add(1)
		if err := conn.TCP().SendNote(testkit.Context(t), oob.Note{Name: "moving"}); err != nil {
			t.Fatal(err)
		}
	}
	if verdict := finishAdder(t, conn, sum); !strings.Contains(verdict, `"low":`+sum) {
		t.Errorf("the verdict on one that moved: %s", verdict)
	}
	s.event("sum.checked", "msg", "the sum is right")

	other, _ := rawAdder(t, s, "3")
	if err := other.TCP().SendNote(testkit.Context(t), oob.Note{Name: "dancing"}); err != nil {
		t.Fatal(err)
	}
	s.event("client.failed", "error", `the client sent the note "dancing", expected "added"`)
	other.Close()
	fallsSilent(t, serve(t, "--timeout", "1s"), "waiting for note") // the wait or the job timed out
}

// TestAtomicMisbehavingServer runs a client against a server that reports wrong values.
func TestAtomicMisbehavingServer(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	t.Run("shares no counter", func(t *testing.T) {
		_, c := rawServer(t, "atomic", "")
		c.fails(1, `the server shares 0 bytes at 0x0 as "counter"`, "try: a server")
	})
	for name, test := range map[string]struct{ verdict, want string }{
		"no verdict":          {"right!", "the server's verdict: invalid character"},
		"an add lost":         {`{"counter":9,"low":9}`, "the server's verdict: the counter holds 9, but held 10 before: an add was lost"},
		"a sum that is wrong": {`{"counter":12,"low":10}`, "the sum is wrong: the counter holds 12; the sum of all adds is 10"},
	} {
		t.Run(name, func(t *testing.T) {
			e, c := rawServer(t, "atomic", "counter")
			if n, err := e.TCP().RecvNote(testkit.Context(t), "added"); err != nil || string(n.Data) != "10" {
				t.Fatalf("%q, %v", n.Data, err)
			}
			if err := e.TCP().SendNote(testkit.Context(t), oob.Note{Name: "verdict", Data: []byte(test.verdict)}); err != nil {
				t.Fatal(err)
			}
			c.fails(1, test.want)
		})
	}
}

// TestAtomicInvalidParameters checks that the server refuses invalid parameters before it
// creates any object.
func TestAtomicInvalidParameters(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, params := range []map[string]string{
		{}, {"count": "5"}, {"count": "0", "add": "1"}, {"count": "1048577", "add": "1"}, {"count": "1", "add": "4294967296"}, {"count": "1", "add": "-1"},
	} {
		t.Run(fmt.Sprint(params), func(t *testing.T) {
			failures := s.failures()
			conn, err := rc.Dial(testkit.Context(t), s.address(), rc.Config{Device: openDevice(t), Job: "atomic", Params: params})
			if err == nil {
				conn.Close()
				t.Fatal("was taken")
			}
			want := "the peer's parameter"
			if r := s.nextFailure(failures); !strings.Contains(r.str("error"), want) || !strings.Contains(err.Error(), want) {
				t.Errorf("the client's error is %v, the server's %s", err, r.str("error"))
			}
		})
	}
	s.stillServes(t)
	s.stops()
}
