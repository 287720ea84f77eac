package workbench

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestActions carries out one action after a list of others, and compares what it says.
func TestActions(t *testing.T) {
	big, wide := Num(1<<63), uint32(1<<24+1)
	ready := connected(nil, nil)
	withMW := func(kind string) []Action {
		return script(ready, one(&Action{Do: "alloc_mw", Host: "server", Name: "mw", PD: thePD, Type: kind}),
			reg("server", "home", 64, "LOCAL_WRITE", "MW_BIND"))
	}
	bind := func(id Num) []Action {
		return one(&Action{Do: "post_send", Host: "server", Name: theQP, WRs: []WR{{ID: id, Opcode: "BIND_MW", MW: "mw", Bind: &Bind{MR: "home", Length: 32, Access: []string{"REMOTE_WRITE"}}}}})
	}
	tests := []struct {
		name    string
		before  []Action
		do      []Action
		wrong   string // the error of Do contains it
		refused string // the errno
		says    string // the result, as JSON, contains it
	}{
		{"a pd", nil, one(&Action{Do: "alloc_pd", Host: "client", Name: "pd"}), "", "", `ibv_alloc_pd(client.context)`},
		{"no such action", nil, one(&Action{Do: "fly"}), "there is no action", "", ""},
		{"no such host", nil, one(&Action{Do: "alloc_pd", Host: "alice", Name: "pd"}), `host "alice"`, "", ""},
		{"a name for two", parents("client", 64), one(&Action{Do: "alloc_pd", Host: "client", Name: thePD}), "has a PD", "", ""},
		{"a bad name", nil, one(&Action{Do: "alloc_pd", Host: "client", Name: "Pd-1"}), "a name is", "", ""},
		{"a name of another kind", script(parents("client", 64), closing("client", theMR)), one(&Action{Do: "create_cq", Host: "client", Name: theMR, Depth: 1}), "was an MR", "", ""},
		{"a name again", script(parents("client", 64), closing("client", theMR)), reg("client", theMR, 64), "", "", `ibv_reg_mr(`},
		{"no pd", nil, reg("client", "a", 64), "no PD", "", ""},
		{"no right of that name", parents("client", 64), reg("client", "a", 64, "ANY"), `right "ANY"`, "", ""},
		{"a region too large", parents("client", 64), reg("client", "a", maxRegion+1), "at most 65536", "", ""},
		{"an empty region", parents("client", 64), reg("client", "a", 0), "", "EINVAL", ""},
		{"remote without local write", parents("client", 64), reg("client", "a", 8, "REMOTE_WRITE"), "", "EINVAL", "REMOTE_WRITE without LOCAL_WRITE"},
		{"a cq of depth 0", nil, one(&Action{Do: "create_cq", Host: "client", Name: "a"}), "", "EINVAL", ""},
		{"an srq of 0", parents("client", 64), one(&Action{Do: "create_srq", Host: "client", Name: "a", PD: thePD}), "", "EINVAL", ""},
		{"a qp of no type", parents("client", 64), makeQP("client", theQP, "XRC"), "is RC, UC or UD", "", ""},
		{"an ah without a peer", parents("client", 64), one(&Action{Do: "create_ah", Host: "client", Name: "ah", PD: thePD, AV: &AV{GID: "peer"}}), "exchange first", "", ""},
		{"an ah without a path", parents("client", 64), one(&Action{Do: "create_ah", Host: "client", Name: "ah", PD: thePD, AV: &AV{GID: "10.0.0.2", Local: true}}), "", "EINVAL", ""},
		{"an ah of an empty slot", parents("client", 64), one(&Action{Do: "create_ah", Host: "client", Name: "ah", PD: thePD, AV: &AV{GID: "10.0.0.2", SGIDIndex: new(uint8)}}), "", "ENODATA", ""},
		{"busy", both(objects), closing("client", theCQ), "", "EBUSY", "1 QP"},
		{"no bit of that name", both(objects), one(&Action{Do: "modify_qp", Host: "client", Name: theQP, Mask: []string{"FOO"}}), `bit "FOO"`, "", ""},
		{"no attribute of that name", both(objects), one(&Action{Do: "modify_qp", Host: "client", Name: theQP, Attr: values{"FOO": 1}.raw()}), `attribute "FOO"`, "", ""},
		{"a number that does not fit", both(objects), move("client", theQP, "INIT", initRC.changed(values{"PORT": 256})), "does not fit", "", ""},
		{"own psn before the exchange", both(objects), move("client", theQP, "RTS", rtsRC), "has told the peer no PSN", "", ""},
		{"bits without values", script(both(objects), toInit("client")), one(&Action{Do: "modify_qp", Host: "client", Name: theQP, Mask: []string{"STATE", "AV", "PATH_MTU", "DEST_QPN", "RQ_PSN", "MAX_DEST_RD_ATOMIC", "MIN_RNR_TIMER"},
			Attr: values{"STATE": "RTR"}.raw()}), "", "EINVAL", ""},
		{"a bad port", both(objects), move("client", theQP, "INIT", initRC.changed(values{"PORT": 2})), "", "EINVAL", ""},
		{"a partition beyond the table", both(objects), move("client", theQP, "INIT", initRC.changed(values{"PKEY_INDEX": 7})), "", "EINVAL", "PKEY_INDEX 7 is beyond"},
		{"a timer code above 31", toldRC(), move("client", theQP, "RTR", rtrRC.changed(values{"MIN_RNR_TIMER": 99})), "", "EINVAL", "MIN_RNR_TIMER=99 (above 31)"},
		{"a psn of 25 bits", toldRC(), move("client", theQP, "RTR", rtrRC.changed(values{"RQ_PSN": 0x1000002})), "", "", "the device took the lower 24 bits: RQ_PSN 0x1000002 → 0x000002"},
		{"a psn of 25 bits to the peer", ready, one(&Action{Do: "exchange", Host: "client", Name: theQP, PSN: &wide}), "psn 0x1000001 has more than 24 bits", "", ""},
		{"missing bits", both(objects), move("client", theQP, "INIT", values{"PORT": 1}), "", "EINVAL", `"missing":["ACCESS_FLAGS","PKEY_INDEX"]`},
		{"illegal bits", both(objects), move("client", theQP, "INIT", initRC.changed(values{"QKEY": 1})), "", "EINVAL", `"illegal":["QKEY"]`},
		{"an impossible move", both(objects), move("client", theQP, "RTS", nil), "", "EINVAL", `"impossible":true`},
		{"an expected state", ready, move("client", theQP, "RTS", values{"CUR_STATE": "RTS"}), "", "", "IBV_QP_CUR_STATE"},
		{"query", ready, one(&Action{Do: "query_qp", Host: "client", Name: theQP}), "", "", "IBV_QP_SQ_PSN | "},
		{"nothing to tell", ready, one(&Action{Do: "exchange", Host: "client"}), "name a queue pair", "", ""},
		{"write beyond the end", ready, text("client", bufSize-1, "ab"), "are not within the region", "", ""},
		{"post nothing", ready, one(&Action{Do: "post_send", Host: "client", Name: theQP}), "1 to 256", "", ""},
		{"post to a full queue", ready, post(send9()...), "", "ENOMEM", `"index":8`},
		{"no opcode", ready, post(WR{ID: 1}), "", "EINVAL", ""},
		{"an unknown opcode", ready, post(WR{ID: 1, Opcode: "SING"}), `opcode "SING"`, "", ""},
		{"inline", ready, post(WR{ID: 1, Opcode: "SEND", Flags: []string{"INLINE"}, SGL: sge(0, 64)}), "", "", `"accepted":1`},
		{"inline too long", ready, post(WR{ID: 1, Opcode: "SEND", Flags: []string{"INLINE"}, SGL: sge(0, 65)}), "", "EINVAL", ""},
		{"inline beyond the end", ready, post(WR{ID: 1, Opcode: "SEND", Flags: []string{"INLINE"}, SGL: sge(bufSize, 8)}), "are not within", "", ""},
		{"too many elements", ready, post(WR{ID: 1, Opcode: "SEND", SGL: script3()}), "", "EINVAL", ""},
		{"a region that was not told", both(objects), post(onRegion(1, "RDMA_WRITE", 0, 8)), "exchange first", "", ""},
		{"plain numbers", ready, post(WR{ID: 1, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{Addr: big, RKey: 5}}), "", "", `.remote_addr = 0x8000000000000000, .rkey = 0x5`},
		{"receives to a cq", ready, postRecv("client", theCQ, WR{}), "go to a queue pair", "", ""},
		{"poll nothing", ready, poll("client"), "", "", "nothing has completed"},
		{"arm", ready, one(&Action{Do: "arm_cq", Host: "client", Name: theCQ, Solicited: true}), "", "", "ibv_req_notify_cq(client_cq, 1)"},
		{"bind type 1", withMW("1"), one(&Action{Do: "bind_mw", Host: "server", Name: theQP, MW: "mw", MR: "home", Length: 32, Access: []string{"REMOTE_READ"}}), "", "", "ibv_bind_mw"},
		{"bind type 1 by a request", withMW("1"), bind(1), "", "EINVAL", ""},
		{"bind type 2", withMW("2"), bind(1), "", "", "ibv_inc_rkey"},
		{"write through a window", script(withMW("2"), bind(1), one(&Action{Do: "exchange", Host: "server", MR: "mw"}), post(WR{ID: 2, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: "mw"}}), run),
			poll("client"), "", "", `"status":"SUCCESS"`},
		{"invalidate a window", script(withMW("2"), bind(1)), one(&Action{Do: "post_send", Host: "server", Name: theQP, WRs: []WR{{ID: 2, Opcode: "LOCAL_INV", MW: "mw"}}}), "", "", "LOCAL_INV"},
		{"flush", script(both(func(h string) []Action {
			return script(parents(h, 64), makeQP(h, theQP, "RC"), move(h, theQP, "INIT", initRC.changed(values{"ACCESS_FLAGS": []string{"FLUSH_GLOBAL"}})))
		}), closing("server", theMR), reg("server", theMR, 64, "FLUSH_GLOBAL"), both(tell), both(toRTR), both(toRTS),
			post(WR{ID: 1, Opcode: "FLUSH", Remote: &Remote{MR: theMR}, Flush: &Flush{Type: 1, Length: 8}}), run), poll("client"), "", "", `"opcode":"FLUSH"`},
		{"an atomic write", script(ready, post(onRegion(1, "ATOMIC_WRITE", 0, 8)), run), poll("client"), "", "", `"opcode":"ATOMIC_WRITE"`},
		{"send with invalidate", script(withMW("2"), bind(1), one(&Action{Do: "exchange", Host: "server", MR: "mw"}), recv("server", 9, 0, 64),
			post(WR{ID: 2, Opcode: "SEND_WITH_INV", SGL: sge(0, 8), Invalidate: &Remote{MR: "mw"}}), run), one(&Action{Do: "poll_cq", Host: "server", Name: theCQ}), "", "", `"invalidated_rkey"`},
		{"step into nothing", ready, step, "", "", "nothing will happen"},
		{"run without a receive", script(ready, send(1, 8)), run, "", "", "client qp retries without end, because its RNR_RETRY is 7"},
		{"run after the receive came", script(connected(nil, values{"TIMEOUT": 21}), send(1, 8), step, step, recv("server", 1, 0, 64), step, drop(3)), run, "", "", "the clock has stopped, but more will happen"},
		{"run while a peer is silent", script(script(connected(nil, values{"TIMEOUT": 31}), send(1, 8)), drop(1)), run, "", "", "the clock has stopped, but more will happen"},
		{"run backwards", ready, one(&Action{Do: "run", NS: -1}), "it is 0 to", "", ""},
		{"no packet", ready, drop(1), "does not exist", "", ""},
		{"a packet that is gone", script(ready, send(1, 8), drop(1)), drop(1), "it was dropped", "", ""},
		{"reorder the last", script(ready, send(1, 8)), one(&Action{Do: "reorder", Packet: 1}), "follows it", "", ""},
		{"reorder", script(ready, send(1, 8), send(2, 8)), one(&Action{Do: "reorder", Packet: 1}), "", "", "reorders packets"},
		{"duplicate", script(ready, send(1, 8)), one(&Action{Do: "duplicate", Packet: 1}), "", "", "duplicates a packet"},
		{"delay", script(ready, send(1, 8)), one(&Action{Do: "delay", Packet: 1, NS: 1000}), "", "", "delays a packet"},
		{"delay backwards", script(ready, send(1, 8)), one(&Action{Do: "delay", Packet: 1, NS: -1000}), "a delay is 0 to", "", ""},
		{"deliver", script(ready, send(1, 8)), one(&Action{Do: "deliver", Packet: 1}), "", "", "delivers a packet"},
		{"corrupt no bit", script(ready, send(1, 8)), one(&Action{Do: "corrupt", Packet: 1, Bit: 9999}), "has bits 0 to", "", ""},
		{"an srq's size", script(parents("client", 64), one(&Action{Do: "create_srq", Host: "client", Name: theSRQ, PD: thePD, MaxWR: 4})), one(&Action{Do: "modify_srq", Host: "client", Name: theSRQ, MaxWR: 8}), "", "", "IBV_SRQ_MAX_WR"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := played(t, Setup{}, test.before)
			for i, r := range s.results {
				if r.Refused != nil {
					t.Fatalf("before: action %d: %s", i, r.Refused.Text)
				}
			}
			before := len(s.actions)
			r, err := s.Do(test.do[0])
			if test.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), test.wrong) || len(s.actions) != before {
					t.Errorf("the error is %v, want one with %q", err, test.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			enc := json.NewEncoder(&text)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(r); err != nil {
				t.Fatal(err)
			}
			errno := ""
			if r.Refused != nil {
				errno = r.Refused.Errno
			}
			if errno != test.refused {
				t.Errorf("refused: %+v, want %q", r.Refused, test.refused)
			}
			if !strings.Contains(text.String(), test.says) {
				t.Errorf("the result is %s, want one with %s", text.String(), test.says)
			}
			if len(r.Code.C) == 0 || len(r.Code.Go) == 0 {
				t.Errorf("no code: %+v", r.Code)
			}
		})
	}
}

// send9 is one SEND more than the queue holds.
func send9() (wrs []WR) {
	for i := range 9 {
		wrs = append(wrs, WR{ID: Num(i), Opcode: "SEND", SGL: sge(0, 8)})
	}
	return wrs
}

// toldRC makes two queue pairs in INIT that have told each other their endpoints.
func toldRC() []Action {
	return script(both(objects), both(toInit), both(func(h string) []Action { return one(&Action{Do: "exchange", Host: h, Name: theQP}) }))
}

func script3() []SGE {
	return []SGE{{MR: theMR, Length: 1}, {MR: theMR, Length: 1}, {MR: theMR, Length: 1}}
}

// FuzzActions carries out whatever actions the fuzzer makes. Nothing may panic, and two runs must
// be the same.
func FuzzActions(f *testing.F) {
	for _, file := range every() {
		text, err := json.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile(text)
		if err != nil || len(file.Actions) > 100 {
			return
		}
		run := func() []byte {
			s, err := New(file.Setup)
			if err != nil {
				return nil
			}
			for i := range file.Actions {
				_, _ = s.Do(file.Actions[i]) // most are wrong
			}
			got := snapshotText(t, s)
			for _, language := range []string{"c", "go"} {
				if _, err := s.Program(language); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return got
		}
		if first, second := run(), run(); string(first) != string(second) {
			t.Error("two runs differ")
		}
	})
}
