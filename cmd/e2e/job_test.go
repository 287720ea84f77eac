package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestSend runs the main job: the client sends a text and gets a reply. The queue pairs must
// move to RTS with the numbers that both ends exchanged over TCP.
func TestSend(t *testing.T) {
	noLeak(t)
	s := serve(t)
	c := s.client(t, "--text", "hello over RDMA")
	c.succeeds()
	s.event("run.done")
	s.stops()
	for _, p := range []*process{s.process, c} {
		t.Run(p.name, func(t *testing.T) {
			checkTransitions(t, p)
			checkFreed(t, p)
		})
	}
	if r := s.find("message.received"); r.str("text") != "hello over RDMA" {
		t.Errorf("the server received %v", r)
	}
	reply := c.find("message.received").str("text")
	if want := "the server received 15 bytes: hello over RDMA"; reply != want {
		t.Errorf("reply %q, want %q", reply, want)
	}
	for _, end := range []struct{ mine, peers *process }{{c, s.process}, {s.process, c}} {
		rq, sq := transitionValue(end.mine, "RTR", "RQ_PSN"), transitionValue(end.peers, "RTS", "SQ_PSN")
		if rq == "" || rq != sq {
			t.Errorf("%s: RQ_PSN %q, the peer's SQ_PSN %q", end.mine.name, rq, sq)
		}
		dest, qpn := transitionValue(end.mine, "RTR", "DEST_QPN"), end.peers.all("qp.transition")[0].str("qpn")
		if dest == "" || dest != qpn {
			t.Errorf("%s: DEST_QPN %q, the peer's QPN %q", end.mine.name, dest, qpn)
		}
	}
}

func checkTransitions(t *testing.T, p *process) {
	type move struct{ from, to, mask string }
	moved := map[string][]move{
		"RC": {{"RESET", "INIT", "0x39"}, {"INIT", "RTR", "0x129181"}, {"RTR", "RTS", "0x12e01"}, {"RTS", "ERR", "0x1"}},
		"UC": {{"RESET", "INIT", "0x39"}, {"INIT", "RTR", "0x101181"}, {"RTR", "RTS", "0x10001"}, {"RTS", "ERR", "0x1"}},
		"UD": {{"RESET", "INIT", "0x71"}, {"INIT", "RTR", "0x1"}, {"RTR", "RTS", "0x10001"}, {"RTS", "ERR", "0x1"}},
	}
	moves := map[string][]record{} // by queue pair
	for _, m := range p.all("qp.transition") {
		moves[m.str("qpn")] = append(moves[m.str("qpn")], m)
	}
	if len(moves) == 0 {
		t.Fatal("no transitions")
	}
	for qpn, moves := range moves {
		want := moved[moves[0].str("type")]
		if len(moves) != len(want) {
			t.Fatalf("queue pair %s: %d transitions, want %d: %v", qpn, len(moves), len(want), moves)
		}
		for i, w := range want {
			m := moves[i]
			if m.str("from") != w.from || m.str("to") != w.to || m.str("mask") != w.mask || m.str("error") != "" {
				t.Errorf("queue pair %s, transition %d: %v, want %v", qpn, i, m, w)
			}
		}
	}
}

// checkFreed checks that the created objects were freed in reverse order.
func checkFreed(t *testing.T, p *process) {
	opposite := map[string]string{
		"ibv_alloc_pd": "ibv_dealloc_pd", "ibv_create_comp_channel": "ibv_destroy_comp_channel",
		"ibv_create_cq": "ibv_destroy_cq", "ibv_create_qp": "ibv_destroy_qp", "ibv_reg_mr": "ibv_dereg_mr",
	}
	var made, freed []string
	for _, r := range p.all("object.made") {
		made = append(made, opposite[r.str("verb")])
	}
	for _, r := range p.all("object.freed") {
		freed = append(freed, r.str("verb"))
	}
	slices.Reverse(freed)
	if len(made) != 7 || !slices.Equal(made, freed) {
		t.Errorf("made, by what frees it: %v; freed, backwards: %v", made, freed)
	}
}

// transitionValue returns an attribute of the transition to a state.
func transitionValue(p *process, to, attr string) string {
	for _, m := range p.all("qp.transition") {
		if m.str("to") == to {
			values, _ := m["attr"].(map[string]any)
			return fmt.Sprint(values[attr])
		}
	}
	return ""
}

// TestArguments runs different command lines with the default port.
func TestArguments(t *testing.T) {
	softtest.Long(t)
	testArguments(t, map[string]arguments{
		"address alone":      {[]string{ipv4}, isGID4},
		"device":             {[]string{ipv4, device}, isGID4},
		"port":               {[]string{ipv4, device, "18515"}, isGID4},
		"GID index":          {[]string{ipv4, device, "18515", gidIndex4}, isGID4},
		"flag between":       {[]string{ipv4, "--ib-port", "1", device, "--mtu=256", "18515"}, isGID4},
		"flag last":          {[]string{ipv4, device, "18515", gidIndex4, "--size", "100"}, isGID4},
		"loopback":           {[]string{"127.0.0.1"}, isGID4},
		"IPv4-mapped":        {[]string{"::ffff:" + ipv4}, isGID4},
		"everything by flag": {[]string{"--size=64", "--timeout", "20s", "-s", "hi", ipv4}, isGID4},
	})
}

// arguments are a client's arguments and a check of the GID that it must choose.
type arguments struct {
	args  []string
	isGID func(string) bool
}

func testArguments(t *testing.T, tests map[string]arguments) {
	noLeak(t)
	takeDefaultPort(t)
	s := start(t, "rdma_server", "--json")
	s.event("server.listening", "address", ":18515")
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := start(t, "rdma_client", append(test.args, "--json")...)
			c.succeeds()
			if gid := c.find("gid.chosen").str("gid"); !test.isGID(gid) {
				t.Errorf("GID %s", gid)
			}
		})
	}
	s.signal(os.Interrupt)
	s.succeeds()
}

// defaultPort is locked by the test that uses the default port.
var defaultPort sync.Mutex

// takeDefaultPort waits until no other test and no other program of this host has the port,
// such as another run of these tests.
func takeDefaultPort(t *testing.T) {
	t.Helper()
	defaultPort.Lock()
	t.Cleanup(defaultPort.Unlock)
	testkit.Until(t, "free TCP port 18515, which another program may have", func() bool {
		l, err := net.Listen("tcp", ":18515")
		if err == nil {
			l.Close()
		}
		return err == nil
	})
}

func TestTexts(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	long := strings.Repeat("0123456789abcdef", 6400) // 100 KiB: the kernel's limit of an argument is 128
	tests := map[string]struct {
		size, text string
		reply      string // "": the whole text
	}{
		"UTF-8":              {"4096", "grüße, 世界 🌍", ""},
		"empty":              {"4096", "", ""},
		"control characters": {"4096", "a\tb\x1b[31mc\"\\", ""},
		"fills the buffer":   {"300", strings.Repeat("x", 300), "the server received 300 bytes: " + strings.Repeat("x", 300-31)},
		"one byte":           {"1", "x", "t"},
		"several packets":    {"1M", long, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "--once")
			c := s.client(t, "--size", test.size, "--text", test.text)
			c.succeeds()
			s.succeeds()
			if got := s.find("message.received"); got == nil || got.str("text") != test.text {
				t.Errorf("the server received %.100v", got)
			}
			want := test.reply
			if want == "" {
				want = fmt.Sprintf("the server received %d bytes: %s", len(test.text), test.text)
			}
			if got := c.find("message.received").str("text"); got != want {
				t.Errorf("reply %.100q, want %.100q", got, want)
			}
		})
	}
}

// ports counts the ports that freePort has tried, from a random one on.
var ports atomic.Uint32

func init() { ports.Store(rand.Uint32N(10000)) }

// freePort returns a TCP port that nothing listens on, another one each time. The kernel
// takes the ports of outgoing connections from 32768 on, so none of them gets this one
// before the test's server does.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := fmt.Sprint(22000 + ports.Add(1)%10000)
		l, err := net.Listen("tcp", ":"+port)
		if err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port from 22000 to 31999")
	return ""
}

// waitListening waits for a listener of a port without connecting to it.
func waitListening(t *testing.T, port string) {
	t.Helper()
	waitListeningTables(t, port, "/proc/net")
}

// waitListeningTables is waitListening in the network namespace whose tables are in a folder.
func waitListeningTables(t *testing.T, port, folder string) {
	t.Helper()
	var n int
	fmt.Sscan(port, &n)
	testkit.Until(t, "listener on port "+port, func() bool {
		for table, nobody := range map[string]string{"tcp6": strings.Repeat("0", 32), "tcp": strings.Repeat("0", 8)} {
			text, err := os.ReadFile(filepath.Join(folder, table))
			if err == nil && strings.Contains(string(text), fmt.Sprintf(":%04X %s:0000 0A ", n, nobody)) {
				return true
			}
		}
		return false
	})
}
