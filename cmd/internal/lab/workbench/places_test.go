package workbench

import (
	"slices"
	"testing"
)

// TestPlaces shows when the place of a send becomes free: by a poll of its completion or of a later one, and at RESET.
func TestPlaces(t *testing.T) {
	s := played(t, Setup{}, connect(eitherQuiet, nil, nil))
	do := func(done, all int, parts ...[]Action) {
		t.Helper()
		for _, a := range script(parts...) {
			if _, err := s.Do(a); err != nil {
				t.Fatal(err)
			}
		}
		o, err := s.hosts[client].find("QP", theQP)
		if err != nil {
			t.Fatal(err)
		}
		sends := s.hosts[client].qpView(o).Sends
		if got := s.hosts[client].held(); got != done || len(sends) != all {
			t.Fatalf("%d requests are done and %d have a place, want %d and %d", got, len(sends), done, all)
		}
		for _, w := range sends[:done] { // it may have failed, and was perhaps never sent
			if !w.Done || w.Started || w.Sent != 0 || w.Acked != 0 {
				t.Fatalf("a request that is done: %+v", w)
			}
		}
	}
	refused := func(want string) {
		t.Helper()
		if r := s.results[len(s.results)-1].Refused; r == nil || r.Errno != want {
			t.Fatalf("refused: %+v, want %s", r, want)
		}
	}
	signaled := func(id Num) WR { return signalLast(writes(id, 1))[0] }
	bad := WR{ID: 9, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}}
	do(0, 2, post(writes(1, 2)...))
	do(2, 2, run, poll("client"))
	do(3, 4, post(signaled(3)), run, post(writes(4, 1)...))
	do(4, 4, run, post(writes(5, 1)...))
	refused("ENOMEM")
	do(1, 1, poll("client")) // of request 3
	do(3, 4, post(signaled(5), signaled(6)), run, post(bad))
	do(4, 4, run) // request 9 fails
	do(2, 2, one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 1}))
	do(1, 1, one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 1}))
	do(4, 4, post(writes(10, 4)...)) // flushed at once, but the last
	refused("ENOMEM")
	do(3, 3, one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 1}))
	do(0, 0, both(renewed), both(toRTR), both(toRTS)) // three old completions are in the CQ
	do(2, 2, post(signaled(14), signaled(15)), run)
	do(1, 1, one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 4}))
	do(0, 0, poll("client"))
	do(2, 2, post(signaled(16)), run, both(renewed), both(toRTR), both(toRTS), post(signaled(17), signaled(18)), run)
	do(2, 2, one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 1})) // of request 16, from before RESET
	do(0, 0, poll("client"))
}

// TestFailedPlaces shows that a request which has failed does not look done before the poll.
func TestFailedPlaces(t *testing.T) {
	bad := WR{ID: 2, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}}
	broken := WR{ID: 1, Opcode: "SEND", SGL: sge(bufSize-16, 64), AH: theAH, RemoteQP: "ud"}
	datagram := func(id Num) []Action { return datagramTo("client", id, sge(0, 16)) }
	ud, _ := findLesson("sqe")
	for name, test := range map[string]struct {
		actions []Action
		qp      string
		want    []string
	}{
		"RC":          {script(connect(eitherQuiet, nil, nil), post(writes(1, 1)...), run, post(bad, writes(3, 1)[0]), run), theQP, []string{"", "REM_ACCESS_ERR", "WR_FLUSH_ERR"}},
		"SQE":         {script(ud.Start, postTo("ud", broken), datagram(2)), "ud", []string{"LOC_PROT_ERR", "WR_FLUSH_ERR"}},
		"back in RTS": {script(ud.Start, postTo("ud", broken), move("client", "ud", "RTS", nil), datagram(3), run), "ud", []string{"LOC_PROT_ERR", ""}},
	} {
		s := played(t, Setup{}, test.actions)
		o, err := s.hosts[client].find("QP", test.qp)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range s.hosts[client].qpView(o).Sends {
			got = append(got, w.Status)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the requests have the statuses %q, want %q", name, got, test.want)
		}
	}
}

// TestPlacesAfterSQE polls failures after the queue pair is back in RTS: they free no place of a later request.
func TestPlacesAfterSQE(t *testing.T) {
	quiet := func(h string) []Action {
		ud := makeQP(h, "ud", "UD")
		ud[0].SigAll = false
		return script(parents(h, bufSize), ud)
	}
	datagram := func(id Num, off int, n uint32, flags ...string) WR {
		return WR{ID: id, Opcode: "SEND", Flags: flags, SGL: sge(off, n), AH: theAH, RemoteQP: "ud"}
	}
	wrong, back := datagram(1, bufSize-16, 64), move("client", "ud", "RTS", nil)
	s := played(t, Setup{}, script(both(quiet), both(udReady), both(udPeer), postTo("ud", datagram(2, 0, 8, "SIGNALED")), run,
		postTo("ud", wrong, datagram(3, 0, 8)), back, postTo("ud", datagram(4, 0, 8), datagram(5, 0, 8, "SIGNALED")), run,
		postTo("ud", wrong), back, postTo("ud", datagram(6, 0, 8, "SIGNALED")), run))
	next := one(&Action{Do: "poll_cq", Host: "client", Name: theCQ, Max: 1})[0]
	for i, want := range []int{6, 5, 4, 2, 1, 0} { // after requests 2, 1, 3, 5, 1 and 6
		if _, err := s.Do(next); err != nil {
			t.Fatal(err)
		}
		if got := s.hosts[client].held(); got != want {
			t.Errorf("after poll %d, %d requests have a place, want %d", i+1, got, want)
		}
	}
}
