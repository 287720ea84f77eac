package workbench

import (
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/qpstate"
)

// played carries out actions, and ends the test at one that has no meaning.
func played(t *testing.T, setup Setup, actions []Action) *Session {
	t.Helper()
	s, err := Replay(setup, actions)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestGoals shows that a goal looks at what has arrived: it is not met by a request of another kind of bytes.
func TestGoals(t *testing.T) {
	read := func(off int) []Action {
		return post(WR{ID: 2, Opcode: "RDMA_READ", SGL: sge(64, 18), Remote: &Remote{MR: theMR, Offset: off}})
	}
	five := func(id Num, lose int) []Action { return script(send(id, fivePackets), drop(lose), run, poll("client")) }
	again := script(both(reset), both(toInit))
	alone := script(reset("client"), toInit("client"), toRTR("client"), toRTS("client")) // the server expects the old packet still
	up := script(both(toRTR), both(toRTS))
	other := uint32(0x900)
	otherPSN := one(&Action{Do: "exchange", Host: "client", Name: theQP, PSN: &other})
	beyond := func(id Num) WR {
		return WR{ID: id, Opcode: "SEND", SGL: sge(bufSize-16, 64), AH: theAH, RemoteQP: "ud"}
	}
	broken := func(more ...WR) []Action {
		return script(postTo("ud", append([]WR{beyond(1)}, more...)...), poll("client"))
	}
	pollOne := one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 1})
	udSend := WR{ID: 9, Opcode: "SEND", SGL: sge(0, 16), AH: theAH, RemoteQP: "ud"}
	write := func(id Num, packets uint32) []Action { return post(onRegion(id, "RDMA_WRITE", 0, packets*4096)) }
	ackMarked := script(write(2, 1), step, one(&Action{Do: "mark", Packet: 4}), run)
	for _, test := range []struct {
		lesson, goal string
		actions      []Action
	}{
		{"gap", "nak", script(send(2, fivePackets), drop(4), run)},
		{"gap", "nak", script(send(2, fivePackets-256), drop(5), run)},
		{"gap", "back", five(2, 4)},
		{"gap", "back", script(send(2, fivePackets), run, poll("client"))},
		{"gap", "back", script(keeping("client"), keeping("server"), five(2, 5))},
		{"gap", "alone", script(keeping("client"), five(2, 5))},
		{"gap", "alone", five(2, 5)},
		{"gap", "keep", script(keeping("client"), five(2, 5))},
		{"gap", "keep", script(keeping("client"), keeping("server"), five(2, 7))},
		{"stale", "again", script(send(1, 13), run, again, up)},
		{"stale", "again", script(send(1, 13), again, otherPSN, up)},
		{"stale", "again", script(send(1, 13), alone)},
		{"stale", "taken", script(send(1, 13), alone, recv("server", 1, 0, 64), run, poll("server"))},
		{"stale", "swallowed", script(send(1, 13), one(&Action{Do: "delay", Packet: 1, NS: 20000}), alone, recv("server", 1, 0, 64), run, send(2, 13), run, poll("client"))},
		{"stale", "taken", script(recv("server", 1, 0, 64), send(1, 13), run, poll("server"))},
		{"stale", "taken", script(recv("server", 1, 0, 64), send(1, 13), run, again, up, recv("server", 1, 0, 64), send(2, 13), run, poll("server"))},
		{"stale", "swallowed", script(recv("server", 1, 0, 64), send(1, 13), one(&Action{Do: "duplicate", Packet: 1}), run, poll("client"))},
		{"stale", "other", script(recv("server", 1, 0, 64), send(1, 13), run, send(2, 13), again, up, run)},
		{"stale", "sent", script(recv("server", 1, 0, 64), text("client", 0, newOrder), send(1, 13), run, poll("server"))},
		{"sqe", "sqe", script(datagramTo("client", 1, sge(bufSize-16, 64)))},
		{"sqe", "flush", broken(udSend)},
		{"sqe", "flush", script(postTo("ud", beyond(1), udSend), pollOne, postAt("server", "ud", beyond(5)), poll("server"), pollOne)}, // the server's error changes nothing
		{"sqe", "flush", script(move("client", "ud", "ERR", nil), poll("client"))},
		{"sqe", "receive", script(datagramTo("server", 1, sge(0, 16)), run, broken())},
		{"sqe", "receive", script(datagramTo("server", 1, sge(0, 16)), run, poll("client"))},
		{"sqe", "back", script(broken(), move("client", "ud", "RESET", nil), udReady("client"))},
		{"sqe", "sent", script(datagramTo("client", 1, sge(0, 16)), run, poll("server"))},
		{"ecn", "mark", ackMarked},
		{"ecn", "mark", script(write(2, 1), one(&Action{Do: "mark", Packet: 3}))},
		{"ecn", "cnp", script(marked(2, 3), run)},
		{"ecn", "waits", write(2, 16)},
		{"ecn", "grows", script(write(2, 12), run, poll("client"))},
		{"ecn", "ack", script(marked(2, 3), run)},
		{"send", "sent", script(toRTS("client"), post(WR{ID: 1, Opcode: "SEND", SGL: sge(64, 13)}), run, poll("client"))},
		{"send", "received", script(toRTS("client"), send(1, 5), run, poll("server"))},
		{"send", "received", script(toRTS("client"), send(1, 16), run, poll("server"))},
		{"rdma", "write", script(post(onRegion(1, "RDMA_WRITE", 0, 16)), run, poll("client"))},
		{"rdma", "read", script(post(onRegion(1, "RDMA_WRITE", 0, 21)), run, poll("client"), read(0), run, poll("client"))},
		{"atomics", "add", script(post(atomic(1, "ATOMIC_FETCH_AND_ADD", 0, 1, 0)), run, poll("client"))},
		{"atomics", "swap", script(post(atomic(1, "ATOMIC_CMP_AND_SWP", 0, 15, 100)), run, poll("client"))},
		{"sqd", "sqd", move("client", theQP, "SQD", nil)},
		{"signalling", "silent", poll("client")},
		{"signalling", "full", post(writes(1, fewSends+1)...)}, // they are not done
		{"signalling", "full", script(post(signalLast(writes(1, fewSends))...), run, post(writes(5, 1)...), poll("client"), post(writes(5, 1)...))},
		{"signalling", "full", script(postAt("server", theQP, writes(1, 4)...), run, closing("client", theQP), closing("client", theCQ),
			postAt("server", theQP, writes(5, 5)...))}, // the server's queue is full
		{"signalling", "freed", script(post(signalLast(writes(1, fewSends))...), run, poll("client"))}, // without the mistake before it
		{"overrun", "full", script(post(writes(1, smallDepth-1)...), run)},
		{"overrun", "err", script(post(writes(1, smallDepth)...), run, poll("client"), post(writes(5, 1)...), run)},
		{"overrun", "lost", script(post(writes(1, smallDepth)...), run, poll("client"))},
		{"overrun", "deep", one(&Action{Do: "create_cq", Host: "client", Name: "deep", Depth: 32})},
		{"events", "asleep", script(arm("server"), wait("server"))},
		{"events", "asleep", script(send(1, 8), run, wait("server"))}, // not armed
		{"events", "found", script(send(1, 8), run, poll("server"))},
		{"events", "event", script(send(1, 8), run, arm("server"), wait("server"))},
		{"events", "ready", script(arm("server"), poll("server"), wait("server"))},
		{"order", "kept", script(post(carry(1, "RDMA_WRITE", 64, noteAt)), run, poll("client"), post(carry(2, "RDMA_READ", 96, noteAt)), run, poll("client"))},
		{"order", "stale", script(post(carry(1, "RDMA_READ", 0, 0)), run, post(carry(2, "RDMA_WRITE", 0, copyAt)), run, poll("client"))},
		{"order", "stale", script(post(carry(1, "RDMA_WRITE", 0, copyAt), carry(2, "RDMA_READ", 0, 0)), run, poll("client"))},
		{"order", "waits", script(post(carry(1, "RDMA_WRITE", 0, copyAt, "FENCE")))},
		{"order", "fresh", script(post(carry(1, "RDMA_READ", 0, 32)), run, post(carry(2, "RDMA_WRITE", 0, copyAt)), run, poll("client"))},
		{"windows", "bind", script(one(&Action{Do: "alloc_mw", Host: "server", Name: theMW, PD: thePD, Type: "1"}),
			one(&Action{Do: "bind_mw", Host: "server", Name: theQP, MW: theMW, MR: theMR, Length: 64, Access: []string{"REMOTE_WRITE"}, Flags: []string{"SIGNALED"}}), poll("server"))},
		{"windows", "write", script(tell("server"), post(onRegion(1, "RDMA_WRITE", windowAt, 18)), run, poll("client"))}, // by the region's rkey
		{"windows", "inv", script(send(1, 4), run, poll("server"))},
		{"windows", "ended", script(tell("server"), post(WR{ID: 1, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}}), run, poll("client"))},
		{"rnr", "nak", script(postAt("server", theQP, WR{ID: 1, Opcode: "SEND", SGL: sge(0, 16)}), step)}, // the client sends this NAK
		{"loss", "drop", script(recv("server", 1, 0, 64), send(1, 16), step, drop(2))},                    // the ACK
		{"srq", "recv", script(one(&Action{Do: "create_srq", Host: "server", Name: theSRQ, PD: thePD, MaxWR: 4}), postRecv("server", theSRQ, WR{ID: 1, SGL: sge(0, 64)}))},
	} {
		l, _ := findLesson(test.lesson)
		found := false
		for _, g := range played(t, Setup{Lesson: test.lesson}, script(l.Start, test.actions)).goals {
			if g.Key == test.goal {
				found = true
				if g.Met >= 0 {
					t.Errorf("lesson %s: goal %s is met", test.lesson, test.goal)
				}
			}
		}
		if !found {
			t.Errorf("lesson %s has no goal %s", test.lesson, test.goal)
		}
	}
}

// TestGoalsOfTheClient shows that the server's requests keep no goal of the lesson signalling from being met.
func TestGoalsOfTheClient(t *testing.T) {
	l, _ := findLesson("signalling")
	for _, g := range played(t, Setup{Lesson: l.ID}, script(l.Start, postAt("server", theQP, onRegion(1, "RDMA_WRITE", 64, 8)), run, l.Solution)).goals {
		if g.Met < 0 {
			t.Errorf("goal %s is not met", g.Key)
		}
	}
}

// TestDamageFound shows that the goal icrc of the lesson loss takes damage that a checksum before the ICRC finds, and not
// damage that nothing covers.
func TestDamageFound(t *testing.T) {
	l, _ := findLesson("loss")
	const sourceAddress, sourcePort, payload, fecn = 100, 165, 8 * 42, 8 * 32
	for bit, want := range map[int]bool{sourceAddress: true, sourcePort: true, payload: true, fecn: false} {
		s := played(t, Setup{Lesson: l.ID}, script(l.Start, recv("server", 1, 0, 64), send(1, 16), one(&Action{Do: "corrupt", Packet: 1, Bit: bit}), step))
		g := glance{s: s}
		if got := g.goal("icrc"); got != want {
			t.Errorf("bit %d is inverted: the goal is met: %v, want %v", bit, got, want)
		}
		if d, err := s.Packet(1); err != nil || d.ICRC.Right == want {
			t.Errorf("bit %d is inverted: the ICRC is right: %v, %v", bit, d.ICRC.Right, err)
		}
	}
}

// TestLessons solves each lesson, and each task of the examination, with its solution. No goal may be met before the user begins.
func TestLessons(t *testing.T) {
	if n := len(lessons()); n != 23 {
		t.Fatalf("%d lessons, want 23", n)
	}
	for i, l := range lessons() {
		if l.ID != order[i] {
			t.Fatalf("lesson %d is %s, want %s: order has every lesson once", i+1, l.ID, order[i])
		}
	}
	all := slices.Clone(lessons())
	for _, p := range exam() {
		if len(p.Goals) > 0 {
			all = append(all, p.Lesson)
		}
	}
	for _, l := range all {
		t.Run(l.ID, func(t *testing.T) {
			s := played(t, Setup{Lesson: l.ID}, l.Start)
			for i, r := range s.results {
				if r.Refused != nil {
					t.Errorf("the start is refused at action %d: %s", i, r.Refused.Text)
				}
			}
			for _, g := range s.Snapshot(0).Goals {
				if g.Met >= 0 {
					t.Errorf("goal %s is met before the user begins", g.Key)
				}
			}
			for i, a := range l.Solution {
				if _, err := s.Do(a); err != nil {
					t.Fatalf("action %d of the solution: %v", i, err)
				}
			}
			for _, g := range s.Snapshot(0).Goals {
				if g.Met < 0 {
					t.Errorf("the solution does not meet goal %s", g.Key)
				}
			}
			if l.Answers > 0 && (l.Right < 1 || l.Right > l.Answers) {
				t.Errorf("answer %d of %d is right", l.Right, l.Answers)
			}
			if t.Failed() {
				for i, r := range s.results[len(l.Start):] {
					t.Logf("%+v", l.Solution[i])
					t.Logf("   %+v", *r)
				}
			}
		})
	}
}

// TestWaitsOfLoss compares what the hint of the lesson on loss says with the device: each wait is twice the one
// before, up to four times TIMEOUT.
func TestWaitsOfLoss(t *testing.T) {
	s := played(t, Setup{}, script(connected(nil, values{"TIMEOUT": 10, "RETRY_CNT": 5}), send(1, 16)))
	for range 5 {
		played := script(drop(len(s.world.Packets())), step)
		for _, a := range played {
			if _, err := s.Do(a); err != nil {
				t.Fatal(err)
			}
		}
	}
	unit := qpstate.ACKTimeout(10)
	for i, want := range []int64{1, 2, 4, 4, 4} {
		all := s.world.Packets()
		if got := int64((all[i+1].Sent - all[i].Sent) / unit); got != want {
			t.Errorf("wait %d is %d times TIMEOUT, want %d", i+1, got, want)
		}
	}
}
