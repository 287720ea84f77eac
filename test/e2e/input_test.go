package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a person can get wrong on the command line, without a peer.
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
		{"server's name unknown", "client nosuchhost.invalid " + device, 1, []string{"nosuchhost.invalid", "use its IP address"}},
		{"server's name empty", "client  " + device, 1, nil},
		{"MTU no power of two", "server --mtu 1500", 2, []string{"1500", "256, 512, 1024"}},
		{"MTU above all", "server --mtu 8192", 2, []string{"8192", "256, 512, 1024"}},
		{"MTU negative", "client --mtu=-1 127.0.0.1", 2, []string{"-1"}},
		{"size zero", "client --size 0 127.0.0.1", 2, []string{"0 bytes", "--size"}},
		{"size negative", "server --max-size=-5", 2, []string{"-5", "64K"}},
		{"size no number", "client --size much 127.0.0.1", 2, []string{"much", "64K"}},
		{"nothing may be asked for", "server --max-size 0", 2, []string{"0 bytes", "--max-size 64M"}},
		{"unknown job", "client --job juggle 127.0.0.1", 2, []string{`"juggle"`, "try: send, write-read, write-imm, exchange-write, exchange-read, atomic, bulk, file"}},
		{"unknown job allowed", "server --allow send,juggle", 2, []string{"--allow", `"juggle"`, "try: send, write-read, write-imm, exchange-write, exchange-read, atomic, bulk, file"}},
		{"timeout zero", "server --timeout 0s", 2, []string{"timeout", "--timeout 30s"}},
		{"timeout no duration", "client --timeout soon 127.0.0.1", 2, []string{"timeout", "soon"}},
		{"listen on a foreign address", "server --listen 192.0.2.1", 1, []string{"192.0.2.1", "no address of this host"}},
		{"no places for clients", "server --max-clients 0", 2, []string{"max-clients"}},
		{"unknown flag", "client --fast 127.0.0.1", 2, []string{"unknown flag: --fast"}},
		{"unknown flag", "server -z", 2, []string{"-z"}},
		{"json and quiet", "server --json --quiet", 2, []string{"json", "quiet"}},
		{"too few arguments", "client", 2, []string{"arg"}},
		{"too many arguments", "client a b 1 1 1", 2, []string{"arg"}},
		{"too many arguments", "server a 1 1 1", 2, []string{"arg"}},
	})
}

// badInput is a command line, and how it fails.
type badInput struct {
	name   string
	args   string // the binary's short name, then its arguments
	status int
	want   []string
}

func testBadInput(t *testing.T, tests []badInput) {
	for _, test := range tests {
		t.Run(test.name+"/"+test.args, func(t *testing.T) {
			name, args, _ := strings.Cut(test.args, " ")
			var list []string
			if args != "" || test.args != name {
				list = strings.Split(args, " ")
			}
			start(t, "rdma_"+name, list...).fails(test.status, test.want...)
		})
	}
}

// What a text and its buffers can be too large for: told before anything goes
// wrong, by the end that knows.
func TestTooLarge(t *testing.T) {
	noLeak(t)
	s := serve(t, "--max-size", "10")
	s.client(t, "--size", "5", "--text", "sixsix").fails(2, "the message has 6 bytes", "buffers 5", "--size 6")
	s.client(t, "--job", "write-read", "--size", "5", "-s", "sixsix").fails(2, "the text has 6 bytes", "region 5", "--size 6")
	for _, job := range []string{"send", "write-read"} {
		c := s.client(t, "--job", job, "-s", "", "--size", "1T")
		c.fails(1, "the client asks for 1T bytes", "at most 10", "--size 10", "--max-size")
	}
	s.event("client.failed", "error", "the client asks for 1T bytes")
	s.client(t, "--size", "10", "--text", "ten bytes.").succeeds()
	s.stops()
}

// A job that there is not, or that this server does not do.
func TestJobNotDone(t *testing.T) {
	noLeak(t)
	s := serve(t, "--allow", "write-read")
	s.client(t).fails(1, `this server does not do the job "send"`, "try: write-read", "--allow")
	s.event("client.failed", "error", `the job "send"`)
	s.client(t, "--job", "write-read").succeeds()
	s.stops()
}

// What may answer at the port instead of rdma_server.
func TestWrongServer(t *testing.T) {
	noLeak(t)
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.Start()
	defer web.Close()

	tests := map[string]struct {
		answer func(net.Conn) // nil: the HTTP server
		want   []string
	}{
		"HTTP":         {nil, []string{"HTTP", "is this the right port?"}},
		"closes":       {func(net.Conn) {}, []string{"closed the connection", "hello"}},
		"SSH":          {func(c net.Conn) { io.WriteString(c, "SSH-2.0-OpenSSH_9.2p1\r\n") }, []string{"SSH", "is this the right port?"}},
		"half a hello": {func(c net.Conn) { c.Write(helloFrame()[:20]) }, []string{"closed the connection after", "hello"}},
		"silent":       {func(c net.Conn) { io.Copy(io.Discard, c) }, []string{"timed out after", "is silent", "hello"}},
		"stops midway": {func(c net.Conn) { c.Write(helloFrame()[:20]); io.Copy(io.Discard, c) }, []string{"timed out after", "stopped after"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			address := web.Listener.Addr().String()
			if test.answer != nil {
				address = listenRaw(t, test.answer)
			}
			host, port, _ := net.SplitHostPort(address)
			began := time.Now()
			c := start(t, "rdma_client", "--json", "--timeout", "2s", host, device, port)
			c.fails(1, test.want...)
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// listenRaw answers one TCP connection, then closes it.
func listenRaw(t *testing.T, answer func(net.Conn)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(limit))
		// What the client has sent is read first: closing over it would reset
		// the connection.
		c.Read(make([]byte, 4096))
		answer(c)
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
	})
	return l.Addr().String()
}

// Status 0 says that all was told, too.
func TestOutputThatCannotBeWritten(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, args := range []string{
		"rdma_client " + ipv4 + " " + device + " " + s.port, "rdma_client --json " + ipv4 + " " + device + " " + s.port,
		"rdma_client --help", "rdma_server --help", "rdma_server --version", "rdma_server man",
	} {
		t.Run(args, func(t *testing.T) {
			list := strings.Split(strings.Replace(args, "--json", "--json=true", 1), " ") // whose output nobody reads
			startBy(t, []string{"sh", "-c", `exec "$0" "$@" >/dev/full`}, list[0], list[1:]...).fails(1, "/dev/stdout: no space left on device", "try: an output with room")
		})
	}
	client := start(t, "rdma_client", "--quiet", ipv4, device, s.port)
	client.succeeds()
	s.stops()
	if got := len(s.all("run.done")); got != 3 {
		t.Errorf("%d jobs done, want 3", got)
	}
}
