package lab

import (
	"encoding/json"
	"flag"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/docs"
	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var update = flag.Bool("update", false, "write testdata")

type report interface{ Text() string }

// text returns what a report prints. It checks that the lines fit, and that the report can be
// encoded.
func text(t *testing.T, r report, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(r.Text()) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > 80 || strings.TrimRight(line, " ") != line {
			t.Errorf("%d columns, or spaces at the end: %q", utf8.RuneCountInString(line), line)
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	return r.Text()
}

// golden compares a text with a file of testdata. After a change: go test ./cmd/internal/lab -update
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (run with -update):\n%s", path, got)
	}
}

func TestExplain(t *testing.T) {
	for _, query := range []string{"12", "ENOMEM", "RETRY_EXC", "ibv_modify_qp ETIMEDOUT", "a capture shows nothing", "4", "psn"} {
		r, err := Explain([]string{query})
		golden(t, "explain-"+strings.ReplaceAll(query, " ", "-"), text(t, r, err))
	}
}

// TestEveryEntryCanBeExplained by its key, its name and its number.
func TestEveryEntryCanBeExplained(t *testing.T) {
	for _, e := range diagnosis.Entries() {
		for _, query := range []string{e.Key, e.Name, e.Short(), strings.Join(e.Calls, " "), e.Symptom} {
			if query == "" || len(e.Calls) > 1 && strings.Contains(query, " ") { // the calls of one entry are looked up one by one
				continue
			}
			r, err := Explain([]string{query})
			text(t, r, err)
			found := false
			for _, got := range r.Entries {
				found = found || got.Key == e.Key
			}
			if !found && query != e.Symptom { // five entries share one symptom
				t.Errorf("%q does not find %s", query, e.Key)
			}
		}
	}
}

// TestExplainTerms asks as a learner does. Each answer has these words, and nothing of the others.
func TestExplainTerms(t *testing.T) {
	for query, want := range map[string]struct{ terms, has, lacks string }{
		"what is PSN":               {"PSN, IBV_QP_RQ_PSN, IBV_QP_SQ_PSN", "nothing arrives", "status 12"},
		"INIT":                      {"INIT", "→INIT EINVAL", "ibv_init_ah_from_wc"},
		"why does my send hang":     {"", "no completion comes", "EINVAL"},
		"What does IBV_QPS_RTR do?": {"RTR", "receives: are served", "the states of a queue pair"},
		"is_global":                 {"GRH", "40 bytes", "FLUSH"},
		"msn":                       {"MSN", "that has an AETH", ""},
		"protection domain":         {"PD, protection domain (ibv_pd)", "share to be used together", ""},
		"IBV_SEND_SIGNALED":         {"IBV_SEND_SIGNALED", "completion when it succeeds", "ENOMEM"},
		"go-back-N":                 {"Go-back-N", "all behind it again", "IBV_EVENT"},
		"explain ECN":               {"ECN and CNP", "marks a packet", "IBV_EVENT"},
		"CNP":                       {"ECN and CNP", "the sender slows down", "IBV_EVENT"},
		"selective repeat":          {"Selective repeat", "behind the gap", "IBV_EVENT"},
		"syndrome":                  {"Syndrome", "AETH", "IBV_EVENT"},
		"ibv_wc":                    {"WC, work completion (ibv_wc)", "the report that a work request is done", ""},
	} {
		r, err := Explain([]string{query})
		got := text(t, r, err)
		var names []string
		for _, term := range r.Terms {
			names = append(names, term.Name)
		}
		whole := strings.Join(strings.Fields(got), " ")
		if strings.Join(names, ", ") != want.terms || !strings.Contains(whole, want.has) || want.lacks != "" && strings.Contains(whole, want.lacks) {
			t.Errorf("%q: %q, want %+v\n%s", query, names, want, got)
		}
	}
}

// TestEveryTermCanBeExplained: each entry of the glossary, each state, bit and flag.
func TestEveryTermCanBeExplained(t *testing.T) {
	kinds := map[string]int{}
	for _, term := range terms() {
		kinds[term.Kind]++
		if term.Text == "" || strings.Contains(term.Text, "receives: . ") {
			t.Errorf("%+v", term)
		}
		for _, words := range term.asks {
			if found := findTerms(words); !slices.ContainsFunc(found, func(f Term) bool { return f.Name == term.Name }) {
				t.Errorf("%q does not find %s", words, term.Name)
			}
		}
	}
	entries := strings.Count(docs.Glossary, "\n- <a id=")
	access, send := 0, 0
	for bit := range 32 {
		for name, n := range map[string]*int{verbs.Access(1 << bit).String(): &access, verbs.SendFlags(1 << bit).String(): &send} {
			if strings.HasPrefix(name, "IBV_") {
				*n++
			}
		}
	}
	if kinds["term"] != entries || kinds["state"] != len(qpstate.States()) || kinds["mask bit"] != 22 || kinds["flag"] != access+send {
		t.Errorf("%v; want %d terms, %d flags", kinds, entries, access+send)
	}
}

// TestExplainTakesPastedText: what a message or the kernel's log has around a name.
func TestExplainTakesPastedText(t *testing.T) {
	for query, want := range map[string]string{
		"(IBV_WC_RETRY_EXC_ERR)": "status RETRY_EXC_ERR", "-22": "errno EINVAL", "status 5": "status WR_FLUSH_ERR",
		"ENOMEM,": "errno ENOMEM", "transport retry counter exceeded": "status RETRY_EXC_ERR",
	} {
		if r, err := Explain(strings.Fields(query)); err != nil || r.Entries[0].Key != want {
			t.Errorf("%q: %+v, %v; want %s first", query, r, err, want)
		}
	}
}

func TestWrongNames(t *testing.T) {
	explain := func(query string) func() error {
		return func() error { _, err := Explain(strings.Fields(query)); return err }
	}
	move := func(typ, from, to string) func() error {
		return func() error { _, err := Move(typ, from, to); return err }
	}
	gids := func(device, peer string) func() error {
		return func() error { _, err := GIDs(device, peer); return err }
	}
	for _, c := range []struct {
		run   func() error
		want  string
		usage bool
	}{
		{explain("ENOMM"), `nothing is known of "ENOMM"; try: ENOMEM`, true},
		{explain("RETRY_EXE"), "try: RETRY_EXC_ERR", true},
		{explain("xyzzy"), "try: a name such as ENOMEM", true},
		{explain("400"), `no errno, completion status or event is "400"`, true},
		{explain("status 400"), `is "status 400"`, true},
		{explain("()"), "nothing to explain", true},
		{move("RC", "INIT", "RTX"), `there is no state "RTX"; try: RTR`, true},
		{move("RC", "xyzzy", "RTR"), "try: one of RESET, INIT, RTR, RTS, SQD, SQE, ERR", true},
		{move("XRC", "INIT", "RTR"), `there is no type "XRC"`, true},
		{move("RC", "INIT", "RTS"), "RC has no move INIT→RTS; from INIT it can go to RESET, INIT, RTR, ERR; try: INIT→RTR→RTS", false},
		{move("UD", "RESET", "ERR"), "try: RESET→INIT→ERR", false},
		{move("UD", "RESET", "SQE"), "UD has no move RESET→SQE", false},
		{gids("soft0", "banana"), `the peer "banana" is not an IP address`, true},
		{gids("10.0.0.1", ""), "try: rdma_lab gids DEVICE 10.0.0.1", true},
		{gids("soft0", "0.0.0.0"), "not the address of one host", true},
		{gids("soft0", "255.255.255.255"), "not the address of one host", true},
		{gids("soft0", "224.0.0.1"), "not the address of one host", true},
		{gids("soft0", "::ffff:224.0.0.1"), "not the address of one host", true},
		{gids("soft0", "fe80::1%nosuch"), `no network interface "nosuch"`, true},
		{gids("soft0", "fe80::1%lo"), "reaches this machine only", false},
		{gids("soft0", "fe80::1%1"), "reaches this machine only", false}, // lo is interface 1
		{gids("soft0", "10.0.0.2"), "reaches this machine only", false},
		{gids("soft0", "2001:db8::1"), "reaches this machine only", false},
		{gids("soft0", "::1"), "", false}, // chosen, though of another family
		{gids("nodevice0", ""), "no device of that name", false},
		{func() error { _, err := States("XRC"); return err }, `there is no type "XRC"`, true},
		{func() error { _, err := State("RC", "RTX"); return err }, `there is no state "RTX"; try: RTR`, true},
		{func() error { _, err := State("XRC", "RTR"); return err }, `there is no type "XRC"`, true},
		{func() error { return UnknownCommand(nil, []string{"devices"}) }, "no command", true},
		{func() error { return UnknownCommand([]string{"state"}, []string{"devices", "states"}) }, "try: states", true},
		{func() error { return UnknownCommand([]string{"xyzzy"}, []string{"devices", "states"}) }, "try: one of devices, states", true},
	} {
		err := c.run()
		if c.want == "" {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, new(usage.Error)) != c.usage {
			t.Errorf("got %v; want %q, a wrong command line: %v", err, c.want, c.usage)
		}
	}
}

func TestStates(t *testing.T) {
	for _, typ := range qpstate.Types() {
		r, err := States(typ.Name())
		golden(t, "states-"+typ.Name(), text(t, r, err))
		if len(r.Moves) != len(qpstate.Transitions(typ)) {
			t.Errorf("%s has %d moves, want %d", r.Type, len(r.Moves), len(qpstate.Transitions(typ)))
		}
	}
	for _, s := range qpstate.States() {
		r, err := State("RC", s.Name())
		if got := text(t, r, err); len(r.Moves) == 0 || r.Receives == "" || r.Sends == "" {
			t.Errorf("%s:\n%s", s.Name(), got)
		}
	}
	r, err := State("rc", "ibv_qps_init")
	golden(t, "state-RC-INIT", text(t, r, err))
	for _, c := range [][3]string{{"RC", "INIT", "RTR"}, {"UD", "reset", "init"}, {"rc", "ibv_qps_rts", "Error"}} {
		r, err := Move(c[0], c[1], c[2])
		golden(t, "move-"+r.Type+"-"+r.From+"-"+r.To, text(t, r, err))
	}
}

// TestEveryMoveHasEveryBit compares the reports with the table. A bit that a move takes has a
// usual value; a forbidden bit names the moves that take it.
func TestEveryMoveHasEveryBit(t *testing.T) {
	for _, typ := range qpstate.Types() {
		for _, move := range qpstate.Transitions(typ) {
			r, err := Move(typ.Name(), move.From.Name(), move.To.Name())
			text(t, r, err)
			if len(r.Attributes) != 22 {
				t.Errorf("%s %s has %d bits", r.Type, move.Name(), len(r.Attributes))
			}
			var masks [2]qpstate.Mask
			for _, a := range r.Attributes {
				var bit qpstate.Mask
				for _, b := range qpstate.Mask(1<<26 - 1).Bits() {
					if b.Name() == a.Name {
						bit = b
					}
				}
				switch a.Rule {
				case required:
					masks[0] |= bit
				case optional:
					masks[1] |= bit
				}
				if (a.Usual == "") != (a.Rule == forbidden) || a.Rule != forbidden && a.Moves != nil {
					t.Errorf("%s %s: %+v", r.Type, move.Name(), a)
				}
			}
			if masks[0] != move.Required|qpstate.MaskState || masks[1] != move.Optional {
				t.Errorf("%s %s: required %v, optional %v", r.Type, move.Name(), masks[0], masks[1])
			}
		}
	}
}

func TestCompletion(t *testing.T) {
	if got := strings.Join(CompleteMove("UD", []string{"SQE"}), " "); got != "RESET RTS ERR" {
		t.Errorf("from SQE to %s", got)
	}
	if got := CompleteMove("UD", nil); len(got) != 7 {
		t.Errorf("states: %q", got)
	}
	names := strings.Join(CompleteExplain(), " ") + " "
	for _, want := range []string{"ENOMEM ", "RETRY_EXC_ERR ", "CQ_ERR ", "ibv_reg_mr "} {
		if strings.Count(names, want) == 0 {
			t.Errorf("%q lacks %q", names, want)
		}
	}
}

// address is the address of soft0, which differs from run to run.
var address = regexp.MustCompile(`127\.\d+\.\d+\.\d+$`)

func TestDevicesAndGIDs(t *testing.T) {
	devices, err := Devices()
	if got := text(t, devices, err); !regexp.MustCompile(`(?m)^soft0 +softroce +1 +ACTIVE +ETHERNET +\d+, at most \d+ +1$`).MatchString(got) {
		t.Errorf("got\n%s", got)
	}
	for name, peer := range map[string]string{"gids-peer": "127.0.0.1", "gids": ""} {
		r, err := GIDs("soft0", peer)
		if err != nil || len(r.GIDs) != 1 || !r.GIDs[0].Chosen || r.GIDs[0].Why == "" || !address.MatchString(r.GIDs[0].Address) {
			t.Fatalf("got %+v, %v", r, err)
		}
		r.GIDs[0].Address = "::ffff:127.X.Y.Z"
		golden(t, name, text(t, r, nil))
	}
}

// TestLoopbackReachesOnlyThisMachine: every end of soft0 is on this machine, so its GID fits
// this machine's addresses alone.
func TestLoopbackReachesOnlyThisMachine(t *testing.T) {
	r, err := GIDs("soft0", "192.0.2.1")
	if err == nil || r == nil || len(r.GIDs) != 1 || r.GIDs[0].Chosen {
		t.Fatalf("got %+v, %v", r, err)
	}
	r.GIDs[0].Address = "::ffff:127.X.Y.Z"
	golden(t, "gids-elsewhere", text(t, r, nil))
	for _, own := range ownAddresses(t) {
		if r, err := GIDs("soft0", own); err != nil || !r.GIDs[0].Chosen {
			t.Errorf("%s, an address of this machine: %+v, %v", own, r, err)
		}
	}
}

// ownAddresses returns the IPv4 addresses of this machine's interfaces that are up.
func ownAddresses(t *testing.T) (own []string) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, ifi := range interfaces {
		addrs, err := ifi.Addrs()
		if err != nil || ifi.Flags&net.FlagUp == 0 {
			continue
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Is4() {
				own = append(own, prefix.Addr().String())
			}
		}
	}
	return own
}

// TestGIDsOfAnotherDevice prints a table as hardware has it.
func TestGIDsOfAnotherDevice(t *testing.T) {
	golden(t, "gids-hardware", text(t, &GIDList{Device: "mlx5_0", Peer: "10.0.0.2", Ports: 1, GIDs: []GID{
		{Port: 1, Index: 0, Type: "RoCE v1", Scope: "IPv6 link-local", Netdev: "enp1s0f0np0", Address: "fe80::ba59:9fff:fec1:2345", Why: "RoCE v1, whose packets do not pass routers"},
		{Port: 1, Index: 1, Type: "RoCE v2", Scope: "IPv6 link-local", Netdev: "enp1s0f0np0", Address: "fe80::ba59:9fff:fec1:2345", Why: "link-local, which reaches only link-local peers"},
		{Port: 1, Index: 3, Type: "RoCE v2", Scope: "IPv4 global", Netdev: "enp1s0f0np0", Address: "::ffff:10.0.0.1", Chosen: true, Why: "RoCE v2, and the address this side reaches the peer from"},
	}}, nil))
	golden(t, "gids-none", text(t, &GIDList{Device: "rxe0", Ports: 1, GIDs: []GID{}}, nil))
}
