package workbench

import (
	"strings"
	"testing"
)

// TestChecks shows which check of the receiver a packet has failed, on the packet, on its NAK and on the completion.
func TestChecks(t *testing.T) {
	rights := func(access ...string) []Action {
		return script(both(func(h string) []Action { return parents(h, bufSize) }), reg("server", "own", 64, access...), both(func(h string) []Action { return makeQP(h, theQP, "RC") }),
			both(toInit), both(tell), one(&Action{Do: "exchange", Host: "server", MR: "own"}), both(toRTR), both(toRTS))
	}
	on := func(opcode, mr string, off int, n uint32) []Action {
		return post(WR{ID: 1, Opcode: opcode, SGL: sge(0, n), Remote: &Remote{MR: mr, Offset: off}})
	}
	ready := connected(nil, nil)
	readOnly := initRC.changed(values{"ACCESS_FLAGS": []string{"REMOTE_READ"}})
	for _, test := range []struct {
		name    string
		actions []Action
		packet  int
		check   string
	}{
		{"right", script(rights("LOCAL_WRITE", "REMOTE_READ"), on("RDMA_WRITE", "own", 0, 8)), 1, "region own lacks REMOTE_WRITE"},
		{"atomic", script(rights("LOCAL_WRITE", "REMOTE_WRITE"), on("ATOMIC_FETCH_AND_ADD", "own", 0, 8)), 1, "region own lacks REMOTE_ATOMIC"},
		{"bounds", script(ready, on("RDMA_READ", theMR, bufSize-4, 8)), 1, "outside of region buf"},
		{"key", script(ready, post(WR{ID: 1, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}})), 1, "no region or bound window has rkey 0x"},
		{"queue pair", script(both(objects), toInit("client"), move("server", theQP, "INIT", readOnly), both(tell), both(toRTR), both(toRTS), on("RDMA_WRITE", theMR, 0, 8)), 1, "ACCESS_FLAGS lack REMOTE_WRITE"},
		{"reads", script(both(objects), both(toInit), both(tell), toRTR("client"), move("server", theQP, "RTR", rtrRC.changed(values{"MAX_DEST_RD_ATOMIC": 0})), both(toRTS), on("RDMA_READ", theMR, 0, 8)), 1, "MAX_DEST_RD_ATOMIC is 0"},
		{"duplicate", script(ready, recv("server", 1, 0, 64), send(1, 8), one(&Action{Do: "duplicate", Packet: 1})), 2, "before 0x000101: a duplicate"},
		{"gap", script(ready, postRecv("server", theQP, WR{ID: 1, SGL: sge(0, 64)}, WR{ID: 2, SGL: sge(64, 64)}), send(1, 8), drop(1), send(2, 8)), 2, "0x000100 is expected first"},
		{"served", script(ready, on("RDMA_WRITE", theMR, 0, 8)), 1, ""},
	} {
		s := played(t, Setup{}, script(test.actions, run, poll("client")))
		for i, r := range s.results[:len(s.results)-1] {
			if r.Refused != nil {
				t.Fatalf("%s: action %d: %s", test.name, i, r.Refused.Text)
			}
		}
		packets := s.Snapshot(0).Packets
		if got := packets[test.packet-1].Check; !strings.HasPrefix(got, test.check) || test.check == "" && got != "" {
			t.Errorf("%s: packet %d failed %q, want %q", test.name, test.packet, got, test.check)
		}
		for i := range packets {
			refused := packets[i].Why.Kind == "nak" && strings.HasPrefix(packets[i].Carries, "NAK remote")
			if done := s.results[len(s.results)-1].Completions; refused && (!strings.HasPrefix(packets[i].Check, test.check) || len(done) == 0 || done[0].Check != packets[i].Check) {
				t.Errorf("%s: NAK %d says %q, the completions are %+v", test.name, i+1, packets[i].Check, done)
			}
		}
	}
}

// localCheck is a session whose last poll finds a request that has failed a check of its own device.
type localCheck struct {
	name    string
	actions []Action
	host    string // that polls
	check   string // the begin of what is said
}

func localChecks() []localCheck {
	own := func(h, name string, access ...string) []Action { return reg(h, name, 64, access...) }
	in := func(mr string, off int, n uint32) []SGE { return []SGE{{MR: mr, Offset: off, Length: n}} }
	stray := Num(0x666)
	ready := script(both(func(h string) []Action { return script(parents(h, bufSize), own(h, "ro"), own(h, "gone")) }), both(func(h string) []Action { return makeQP(h, theQP, "RC") }),
		one(&Action{Do: "alloc_pd", Host: "client", Name: "pd2"}), one(&Action{Do: "reg_mr", Host: "client", Name: "far", PD: "pd2", Length: 64}),
		both(toInit), both(tell), one(&Action{Do: "exchange", Host: "server", MR: theMR}), both(toRTR), both(toRTS), recv("server", 9, 0, 64))
	read := func(sgl []SGE) []Action {
		return post(WR{ID: 1, Opcode: "RDMA_READ", SGL: sgl, Remote: &Remote{MR: theMR}})
	}
	checks := []localCheck{
		{"bounds", post(WR{ID: 1, Opcode: "SEND", SGL: in("ro", 60, 8)}), "client", "outside of region ro"},
		{"before it", post(WR{ID: 1, Opcode: "SEND", SGL: in(theMR, -8, 8)}), "client", "outside of region buf"},
		{"key", post(WR{ID: 1, Opcode: "SEND", SGL: []SGE{{MR: theMR, Length: 8, LKey: &stray}}}), "client", "no region has lkey 0x666"},
		{"closed", script(one(&Action{Do: "close", Host: "client", Name: "gone"}), post(WR{ID: 1, Opcode: "SEND", SGL: in("gone", 0, 8)})), "client", "no region has lkey 0x"},
		{"domain", post(WR{ID: 1, Opcode: "SEND", SGL: in("far", 0, 8)}), "client", "region far is in another PD"},
		{"right", read(in("ro", 0, 8)), "client", "region ro lacks LOCAL_WRITE"},
		{"receive", script(postRecv("server", theQP, WR{ID: 1, SGL: in("ro", 0, 8)}), send(1, 8), send(2, 8)), "server", "region ro lacks LOCAL_WRITE"},
	}
	for i := range checks {
		checks[i].actions = script(ready, checks[i].actions, run, poll(checks[i].host))
	}
	return checks
}

// TestLocalChecks shows which check of its own device a request has failed, of sends and of receives.
func TestLocalChecks(t *testing.T) {
	for _, test := range localChecks() {
		s := played(t, Setup{}, test.actions)
		var got []string
		for _, wc := range s.results[len(s.results)-1].Completions {
			if wc.Status == "LOC_PROT_ERR" {
				got = append(got, wc.Check)
			}
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], test.check) {
			t.Errorf("%s: the checks are %q, want %q", test.name, got, test.check)
		}
	}
}

// TestRepeatedNAK: a request behind the one that was refused is not served, and the answer repeats the NAK.
func TestRepeatedNAK(t *testing.T) {
	refused := WR{ID: 1, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, Offset: bufSize - 4}}
	s := played(t, Setup{}, script(connected(nil, nil), recv("server", 1, 0, 64), post(refused, WR{ID: 2, Opcode: "SEND", SGL: sge(0, 8)}), run))
	packets := s.Snapshot(0).Packets
	if got := []string{packets[0].Outcome, packets[1].Outcome}; got[0] != "refused_access" || got[1] != "refused_before" {
		t.Errorf("the outcomes are %q", got)
	}
	for _, p := range packets[2:] {
		if again := p.Why.Answers == 2; again != strings.HasPrefix(p.Why.Text, "repeats the NAK") {
			t.Errorf("packet %d answers %d: %s", p.ID, p.Why.Answers, p.Why.Text)
		}
	}
}
