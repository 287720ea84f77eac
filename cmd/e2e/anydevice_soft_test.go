//go:build !rdma

// Tests that depend only on the command line and TCP. They are the same on every device, and
// run only on soft0, because programs start slowly in an emulated machine.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
)

// TestHostileBytes sends invalid bytes to a server. The server must log one error, free
// everything and serve other clients at the same time.
func TestHostileBytes(t *testing.T) {
	noLeak(t)
	header := func(version, kind byte, length uint32) []byte {
		return binary.BigEndian.AppendUint32([]byte{'R', 'V', 'O', '\n', version, kind, 0, 0}, length)
	}
	tests := map[string]struct {
		send []byte
		want string // in the server's record
	}{
		"garbage":          {[]byte{0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8}, "does not speak this protocol"},
		"HTTP GET":         {[]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP client"},
		"another version":  {header(2, 1, 4), "version 2"},
		"frame too long":   {header(1, 1, 0xffffffff), "4294967295"},
		"unknown message":  {header(1, 77, 0), "77"},
		"wrong message":    {append(header(1, 4, 2), 1, 'x'), "barrier"},
		"hello of rubbish": {append(header(1, 1, 8), 1, 0xff, 0, 0, 0, 0, 0, 0), "protocol error"},
	}
	s := serve(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			nc := dialRaw(t, s)
			peer := nc.LocalAddr().String()
			nc.SetDeadline(testkit.Deadline())
			if _, err := nc.Write(test.send); err != nil {
				t.Fatal(err)
			}
			io.Copy(io.Discard, nc) // until the server closes
			s.event("client.failed", "peer", peer, "error", test.want)
		})
	}
	s.stillServes(t)
	s.stops()
}

// TestHelloCutAtEachByte closes the connection after each byte of a hello.
func TestHelloCutAtEachByte(t *testing.T) {
	noLeak(t)
	s := serve(t)
	frame := helloFrame(t)
	for n := range frame {
		nc := dialRaw(t, s)
		if _, err := nc.Write(frame[:n]); err != nil {
			t.Fatal(err)
		}
		nc.CloseWrite()
		nc.SetReadDeadline(testkit.Deadline())
		if _, err := io.Copy(io.Discard, nc); errors.Is(err, os.ErrDeadlineExceeded) { // otherwise the server has closed
			t.Fatalf("after %d bytes: %v", n, err)
		}
		nc.Close()
	}
	s.event("client.failed", "error", "closed the connection")
	s.stillServes(t)
	s.stops()
}

// TestSilentFromTheBeginning checks that the server closes a connection without a hello before
// --timeout.
func TestSilentFromTheBeginning(t *testing.T) {
	noLeak(t)
	s := serve(t, never)
	peer := dialRaw(t, s).LocalAddr().String()
	s.event("client.failed", "peer", peer, "error", "hello")
	s.stillServes(t)
	s.stops()
}

// TestSilentClients checks that silent clients delay no other client, and fail at the timeout.
func TestSilentClients(t *testing.T) {
	noLeak(t)
	s := serve(t, never)
	for steps := range len(fakeSteps) + 1 {
		fakeClient(t, dialRaw(t, s), steps)
	}
	s.client(t).succeeds()

	s = serve(t, "--timeout", "1s")
	var silent []net.Conn
	for steps := range len(fakeSteps) + 1 {
		nc := dialRaw(t, s)
		silent = append(silent, nc)
		fake := oob.NewConn(nc, oob.Options{Timeout: testkit.Limit})
		t.Cleanup(func() { fake.Close() })
		for _, step := range fakeSteps[:steps] {
			if step.do(testkit.Context(t), fake) != nil {
				break // the time was over before
			}
		}
	}
	for _, nc := range silent {
		// Without --timeout it would be 5 s for the hello, and 15 s from there to RTS.
		if r := s.event("client.failed", "peer", nc.LocalAddr().String()); r.str("error") == "" || strings.Contains(r.str("error"), "15s of its hello") {
			t.Errorf("the reason: %v", r)
		}
	}
	s.held.expect(t, s)
	s.stops()
}

// TestBadInput checks the errors of wrong command lines that need no peer.
func TestBadInput(t *testing.T) {
	noLeak(t)
	occupied, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()
	_, busy, _ := net.SplitHostPort(occupied.Addr().String())
	nobody := freePort(t)

	testBadInput(t, []badInput{
		{"unknown device", "server nosuch0", 1, []string{"nosuch0", "try: one of those that exist: ", device}},
		{"unknown device", "client 127.0.0.1 nosuch0", 1, []string{"nosuch0", "try: one of those that exist: ", device}},
		{"device's name with a slash", "client 127.0.0.1 ../" + device, 1, []string{"try: one of those that exist"}},
		{"port busy", "server " + device + " " + busy, 1, []string{busy, "address already in use", "ss -ltnp"}},
		{"metrics on a busy port", "server --metrics 127.0.0.1:" + busy + " " + device + " 0", 1, []string{"--metrics 127.0.0.1:" + busy, "address already in use", "try: another port; ss -ltnp"}},
		{"metrics without a port", "server --metrics 127.0.0.1 " + device + " 0", 1, []string{"missing port", "try: --metrics 127.0.0.1:9435"}},
		{"TLS of an unset variable", "server --tls= " + device + " 0", 2, []string{"--tls is empty"}},
		{"TLS of an unset variable", "client --tls= 127.0.0.1 " + device, 2, []string{"--tls is empty"}},
		{"jobs of an unset variable", "server --allow= " + device + " 0", 2, []string{"--allow is empty"}},
		{"port out of range", "server " + device + " 65536", 2, []string{`"65536"`, "0 to 65535"}},
		{"port negative", "client -- 127.0.0.1 " + device + " -1", 2, []string{`"-1"`, "1 to 65535"}},
		{"port zero at the client", "client 127.0.0.1 " + device + " 0", 2, []string{`"0"`, "1 to 65535"}},
		{"port no number", "client 127.0.0.1 " + device + " http", 2, []string{`"http"`, "1 to 65535"}},
		{"GID index empty slot", "client 127.0.0.1 " + device + " 18515 200", 1, []string{"GID index 200", gidIndex4 + ": ::ffff:", "leave the index out"}},
		{"GID index empty slot", "server " + device + " 0 200", 1, []string{"GID index 200", gidIndex4 + ": ::ffff:", "leave the index out"}},
		{"GID index out of range", "server " + device + " 0 256", 2, []string{`"256"`, "0 to 255"}},
		{"GID index negative", "server -- " + device + " 0 -1", 2, []string{`"-1"`, "0 to 255"}},
		{"GID index no number", "client 127.0.0.1 " + device + " 18515 one", 2, []string{`"one"`, "0 to 255"}},
		{"IB port that is not there", "server --ib-port 9 " + device, 1, []string{"port 9", "try:"}},
		{"IB port that is not there", "client --ib-port 9 127.0.0.1", 1, []string{"port 9", "try:"}},
		{"IB port zero", "server --ib-port 0", 2, []string{"no port 0", "--ib-port 1"}},
		{"IB port out of range", "client --ib-port 256 127.0.0.1", 2, []string{"ib-port", "256"}},
		{"server not there", "client 127.0.0.1 " + device + " " + nobody, 1, []string{nobody, "connection refused", "is rdma_server running"}},
		{"server's name unknown", "client nosuchhost.invalid " + device, 1, []string{"nosuchhost.invalid", "use the IP address"}},
		{"IPv6 address in brackets", "client [::1] " + device + " " + nobody, 1, []string{"cannot connect to [::1]:" + nobody + ": ", "is rdma_server running"}},
		{"IPv6 address in brackets", "server --listen [2001:db8::1] " + device + " 18515", 1, []string{"cannot listen on [2001:db8::1]:18515: ", "not an address of this host"}},
		{"server's name empty", "client  " + device, 1, nil},
		{"MTU no power of two", "server --mtu 1500", 2, []string{"1500", "256, 512, 1024"}},
		{"MTU above all", "server --mtu 8192", 2, []string{"8192", "256, 512, 1024"}},
		{"MTU negative", "client --mtu=-1 127.0.0.1", 2, []string{"-1"}},
		{"size zero", "client --size 0 127.0.0.1", 2, []string{"0 bytes", "--size"}},
		{"size negative", "server --max-size=-5", 2, []string{"-5", "64K"}},
		{"size no number", "client --size much 127.0.0.1", 2, []string{"much", "64K"}},
		{"nothing may be asked for", "server --max-size 0", 2, []string{"with --max-size 0", "--max-size 64M"}},
		{"unknown job", "client --job juggle 127.0.0.1", 2, []string{`"juggle"`, "try: send, write-read, write-imm, exchange-write, exchange-read, atomic, bulk, file"}},
		{"unknown job allowed", "server --allow send,juggle", 2, []string{"--allow", `"juggle"`, "try: send, write-read, write-imm, exchange-write, exchange-read, atomic, bulk, file"}},
		{"timeout zero", "server --timeout 0s", 2, []string{"timeout", "--timeout 30s"}},
		{"timeout no duration", "client --timeout soon 127.0.0.1", 2, []string{"timeout", "soon"}},
		{"listen on a foreign address", "server --listen 192.0.2.1", 1, []string{"192.0.2.1", "not an address of this host"}},
		{"no places for clients", "server --max-clients 0", 2, []string{"max-clients"}},
		{"unknown flag", "client --fast 127.0.0.1", 2, []string{"unknown flag: --fast"}},
		{"unknown flag", "server -z", 2, []string{"-z"}},
		{"json and quiet", "server --json --quiet", 2, []string{"json", "quiet"}},
		{"too few arguments", "client", 2, []string{"arg"}},
		{"too many arguments", "client a b 1 1 1", 2, []string{"arg"}},
		{"too many arguments", "server a 1 1 1", 2, []string{"arg"}},
	})
}

// TestJobNotDone requests a job that does not exist or that the server does not run.
func TestJobNotDone(t *testing.T) {
	noLeak(t)
	s := serve(t, "--allow", "write-read")
	s.client(t).fails(1, `this server does not do the job "send"`, "try: write-read", "--allow")
	s.event("client.failed", "error", `the job "send"`)
	s.client(t, "--job", "write-read").succeeds()
	s.stops()
}

// TestWrongServer connects a client to programs other than rdma_server.
func TestWrongServer(t *testing.T) {
	noLeak(t)
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Start()
	defer web.Close()
	half := helloFrame(t)[:20]
	tests := map[string]struct {
		answer func(net.Conn) // nil: the HTTP server
		want   []string
	}{
		"HTTP":         {nil, []string{"HTTP", "is this the right port?"}},
		"closes":       {func(net.Conn) {}, []string{"closed the connection", "hello"}},
		"SSH":          {func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.2p1\r\n") }, []string{"SSH", "is this the right port?"}},
		"half a hello": {func(c net.Conn) { c.Write(half) }, []string{"closed the connection after", "hello"}},
		"silent":       {func(c net.Conn) { io.Copy(io.Discard, c) }, []string{"is silent", "timed out after", "hello"}},
		"stops midway": {func(c net.Conn) { c.Write(half); io.Copy(io.Discard, c) }, []string{"stopped after", "timed out after"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := func(timeout string) *process {
				address := web.Listener.Addr().String()
				if test.answer != nil {
					address = listenRaw(t, test.answer)
				}
				host, port, _ := net.SplitHostPort(address)
				return start(t, "rdma_client", "--json", timeout, host, device, port)
			}
			if !slices.Contains(test.want, "timed out after") {
				client(never).fails(1, test.want...)
				return
			}
			runsOut(t, func() *process { return client("--timeout=1s") }, test.want...)
		})
	}
}

// TestOutputThatCannotBeWritten checks that the status is not 0 if output was lost.
func TestOutputThatCannotBeWritten(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, args := range []string{
		"rdma_client " + ipv4 + " " + device + " " + s.port, "rdma_client --json " + ipv4 + " " + device + " " + s.port,
		"rdma_client --ladder " + ipv4 + " " + device + " " + s.port,
		"rdma_client --help", "rdma_server --help", "rdma_server --version", "rdma_server man",
	} {
		t.Run(args, func(t *testing.T) {
			list := strings.Split(strings.Replace(args, "--json", "--json=true", 1), " ") // the test does not read the output
			startBy(t, []string{"sh", "-c", `exec "$0" "$@" >/dev/full`}, list[0], list[1:]...).fails(1, "/dev/stdout: no space left on device", "try: an output with free space")
		})
	}
	client := start(t, "rdma_client", "--quiet", ipv4, device, s.port)
	client.succeeds()
	s.stops()
	if got := len(s.all("run.done")); got != 4 {
		t.Errorf("%d jobs done, want 4", got)
	}
}

func TestAtomicBadInput(t *testing.T) {
	testBadInput(t, []badInput{
		{"no operations", "client --job atomic --count 0 127.0.0.1", 2, []string{"--count 0 is out of range", "--count 1 to 1048576"}},
		{"too many", "client --job atomic --count 1048577 127.0.0.1", 2, []string{"--count 1048577 is out of range", "--count 1 to 1048576"}},
		{"no number", "client --job atomic --count many 127.0.0.1", 2, []string{"many"}},
		{"nothing to add", "client --job atomic --add 0 127.0.0.1", 2, []string{"--add 0 is out of range", "--add 1 to 4294967295"}},
		{"too much to add", "client --job atomic --add 4294967296 127.0.0.1", 2, []string{"--add 4294967296 is out of range"}},
		{"less than nothing", "client --job atomic --add=-1 127.0.0.1", 2, []string{"-1"}},
		{"unknown operation", "client --job atomic --op multiply 127.0.0.1", 2, []string{`"multiply"`, "--op fetch-add, cmp-swap or both"}},
		{"another job's flag", "client --count 3 127.0.0.1", 2, []string{"--count is not a flag of the job send"}},
	})
}

// TestBulkBadInput checks the errors of wrong flags of the job bulk.
func TestBulkBadInput(t *testing.T) {
	noLeak(t)
	deeper := maxQPWR(t)
	client := "client --job bulk 127.0.0.1 " + device + " "
	testBadInput(t, []badInput{
		{"size no number", client + "--size much", 2, []string{`"much"`, "64K, 1M or 10G"}},
		{"size of nothing", client + "--size 0", 2, []string{"0 bytes", "--size"}},
		{"size negative", client + "--size=-1G", 2, []string{"-1G"}},
		{"chunk no number", client + "--chunk 64Q", 2, []string{`"64Q"`}},
		{"chunk of nothing", client + "--chunk 0", 2, []string{"a chunk of 0 bytes", "--chunk from 1 to 1G"}},
		{"chunk above all", client + "--size 4G --chunk 2G", 2, []string{"a chunk of 2G bytes", "--chunk from 1 to 1G"}},
		{"chunk above the size", client + "--size 1M --chunk 2M", 2, []string{"a chunk of 2M bytes", "all of the data, 1M", "--chunk 1M"}},
		{"none outstanding", client + "--outstanding 0", 2, []string{"0 requests outstanding", "--outstanding from 1"}},
		{"too many outstanding", client + "--outstanding 2000000", 2, []string{"2000000", "--outstanding from 1 to 1048576"}},
		{"more outstanding than max_qp_wr", client + fmt.Sprintf("--outstanding %d --chunk 1", deeper), 1, []string{"a send queue of", device, "max_qp_wr"}},
		{"none signaled", client + "--signal-every 0", 2, []string{"--signal-every from 1 to 16"}},
		{"none signaled in time", client + "--signal-every 17", 2, []string{"one request of 17 signaled and 16 outstanding", "--signal-every from 1 to 16"}},
		{"no queue pairs", client + "--qps 0", 2, []string{"0 queue pairs", "--qps from 1 to 64"}},
		{"too many queue pairs", client + "--qps 65", 2, []string{"65 queue pairs", "--qps from 1 to 64"}},
		{"unknown operation", client + "--op move", 2, []string{`"move"`, "try: write, read, send"}},
		{"rows into no folder", client + "--csv /nosuch/file", 1, []string{"--csv", "/nosuch/file", "no such file", "try: a file in a folder"}},
		{"another job's flag", client + "--text hello", 2, []string{"--text is not a flag of the job bulk"}},
		{"a flag of bulk's", "client --job send 127.0.0.1 " + device + " --qps 2", 2, []string{"--qps is not a flag of the job send", "bulk"}},
	})
}

func TestBulkInvalidHellos(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, c := range []struct{ key, value, want string }{
		{"op", "steal", `asks for the operation "steal"`},
		{"seed", "green", `parameter seed is "green"`},
		{"bytes", "0", `parameter bytes is "0"`},
		{"bytes", "99999999999999999999", `parameter bytes is "99999999999999999999"`},
		{"chunk", "65537", `parameter chunk is "65537", not a number from 1 to 65536`},
		{"outstanding", "-1", `parameter outstanding is "-1"`},
		{"qps", "65", `parameter qps is "65"`},
		{"qps", "", `parameter qps is ""`},
	} {
		refused(t, s, bulkHello(map[string]string{c.key: c.value}), c.want)
	}
	s.stillServes(t)
	s.stops()
}

// TestBenchBadInput checks the errors of wrong flags of the bench jobs.
func TestBenchBadInput(t *testing.T) {
	noLeak(t)
	deeper := maxQPWR(t)
	client := func(job string) string { return "client --job bench-" + job + " 127.0.0.1 " + device + " " }
	list := []badInput{
		{"size of nothing", client("write-bw") + "-s 0", 2, []string{"0 bytes", "--size"}},
		{"size of too much", client("write-bw") + "-s 2G", 2, []string{"bytes in a message", "-s from 1 to"}},
		{"no iterations", client("write-bw") + "-n 0", 2, []string{"0 iterations", "-n from 5"}},
		{"iterations and a list", client("write-bw") + "-n 10 -l 3", 2, []string{"10 iterations", "-n 12"}},
		{"no queue pairs", client("write-bw") + "-q 0", 2, []string{"0 queue pairs", "-q from 1"}},
		{"too many queue pairs", client("write-bw") + "-q 65", 2, []string{"65 queue pairs", "1 to 64"}},
		{"queue pairs for latency", client("write-lat") + "-q 2", 2, []string{"one message at a time", "bandwidth job"}},
		{"nothing outstanding", client("send-bw") + "-t 0", 2, []string{"0 requests outstanding", "-t from 1"}},
		{"too much outstanding", client("send-bw") + "-t 15001", 2, []string{"15001", "-t from 1 to 15000"}},
		{"a list longer than the queue", client("send-bw") + "-t 8 -l 10", 2, []string{"-t 10 or more"}},
		{"an atomic of another size", client("atomic-bw") + "-s 16", 2, []string{"always has 8 bytes"}},
		{"an atomic of all sizes", client("atomic-lat") + "-a", 2, []string{"always has 8 bytes"}},
		{"WRITE latency by events", client("write-lat") + "-e", 2, []string{"without -e"}},
		{"a duration of all sizes", client("write-bw") + "-D 5 -a", 2, []string{"-n instead of -D"}},
		{"a duration of margins", client("write-bw") + "-D 2 -f 1", 2, []string{"margins of 1s", "a longer -D"}},
		{"a negative duration", client("write-bw") + "-D -1", 2, []string{"-1 seconds", "--duration 5"}},
		{"a chart into no folder", client("write-bw") + "--chart /nosuch/c.svg", 1, []string{"--chart", "/nosuch/c.svg", "no such file", "try: a file in a folder"}},
		{"a chart of another kind", client("write-bw") + "--chart c.png", 2, []string{"c.png", ".svg or .html"}},
		{"a chart over a folder", client("write-bw") + "--chart " + folderNamed(t, "c.svg"), 1, []string{"is not a file"}},
		{"another job's flag", client("write-bw") + "--count 3", 2, []string{"--count is not a flag of the job bench-write-bw"}},
		{"a text", client("write-bw") + "--text hello", 2, []string{"--text is not a flag of the job bench-write-bw"}},
		{"a text for a size", client("write-bw") + "-s hello", 2, []string{`"hello" is not a size`}},
		{"-s elsewhere", "client --job send 127.0.0.1 " + device + " -n 3", 2, []string{"-n is not a flag of the job send, but of: --count of net-echo; --iters of bench-…"}},
	}
	if deeper <= 15_000 {
		list = append(list, badInput{"deeper than the device", client("send-bw") + fmt.Sprintf("-n 20000 -t %d", deeper), 1, []string{"a send queue of", device, "max_qp_wr"}})
	}
	testBadInput(t, list)
}

func TestRecordBadFiles(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	testBadInput(t, []badInput{
		{"no folder", "client --record " + folder + "/absent/file 127.0.0.1", 1, []string{"--record: ", "no such file", "try: a file in a folder that exists"}},
		{"a folder", "client --record " + folder + " 127.0.0.1", 1, []string{"--record: ", "is not a file", "try: another name"}},
		{"a device", "client --record /dev/null 127.0.0.1", 1, []string{"--record: ", "is not a file"}},
		{"a file in a file", "client --record " + writeFile(t, "file", 1) + "/x 127.0.0.1", 1, []string{"--record: ", "not a directory"}},
	})
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestRecordReplacesAndIsQuiet checks that --record works with --quiet, and that it replaces
// an existing file, also through a symbolic link.
func TestRecordReplacesAndIsQuiet(t *testing.T) {
	noLeak(t)
	folder := t.TempDir()
	file, link := filepath.Join(folder, "record"), filepath.Join(t.TempDir(), "link")
	if err := os.WriteFile(file, []byte(strings.Repeat("old\n", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	s := serve(t)
	c := start(t, "rdma_client", "--quiet", "--record", link, ipv4, device, s.port)
	c.succeeds()
	if len(c.lines) > 0 {
		t.Errorf("--quiet printed %q", c.lines)
	}
	s.stops()
	if rec := readRecord(t, file); !rec.Server.Present || len(of(rec, "server", "wc.dump")) == 0 {
		t.Errorf("%+v", rec.Header)
	}
	if to, err := os.Readlink(link); to != file {
		t.Errorf("the link is to %s, %v", to, err)
	}
}

// TestNarrationAndQuiet checks that -v prints the same events as --json, and that --quiet
// prints nothing.
func TestNarrationAndQuiet(t *testing.T) {
	noLeak(t)
	port := freePort(t)
	for _, flag := range []string{"-v", "--quiet"} {
		s := start(t, "rdma_server", flag, "--once", device, port)
		waitListening(t, port)
		c := start(t, "rdma_client", flag, "--text", "hé\x1b[0m", ipv4, device, port)
		c.succeeds()
		s.succeeds()
		for _, p := range []*process{s, c} {
			out := strings.Join(p.lines, "\n")
			if flag == "--quiet" {
				if out != "" {
					t.Errorf("%s --quiet wrote to stdout: %s", p.name, out)
				}
				continue
			}
			for _, want := range []string{
				"RESET→INIT", "mask=0x39", "mask=0x129181", "mask=0x12e01", "PORT=1", "ibv_modify_qp",
				"CONTROL ", "DATA ", `hé\x1b[0m`, "done: the job succeeded",
			} {
				if !strings.Contains(out, want) {
					t.Errorf("%s: the narration lacks %q:\n%s", p.name, want, out)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("%s: the terminal was sent an escape character", p.name)
			}
		}
	}
}

func folderNamed(t *testing.T, name string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

func maxQPWR(t *testing.T) int {
	t.Helper()
	attr, err := openDevice(t).Query()
	if err != nil {
		t.Fatal(err)
	}
	return attr.MaxQPWR
}

// helloFrame records the frame of a hello.
func helloFrame(t *testing.T) []byte {
	a, b := net.Pipe()
	c := oob.NewConn(a, oob.Options{})
	defer c.Close()
	go func() { _, _ = c.Hello(t.Context(), hello()) }()
	frame := make([]byte, 1024)
	n, err := b.Read(frame) // a message is one Write
	if err != nil {
		t.Fatal(err)
	}
	return frame[:n]
}
