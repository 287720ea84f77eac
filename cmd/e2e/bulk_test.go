package e2e

import (
	"encoding/csv"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// bulkExercises returns runs that use every slot of their windows several times.
func bulkExercises() []exercise {
	odd := []string{"--chunk", "1777", "--outstanding", "5", "--signal-every", "5"}
	return []exercise{
		bulk("write", 1<<20, 1, "--chunk", "16K"),
		bulk("read", 1<<20, 1, "--chunk", "16K"),
		bulk("send", 1<<20, 1, "--chunk", "16K"),
		bulk("write, 3 queue pairs, odd sizes", 400_001, 3, odd...),
		bulk("read, 3 queue pairs, odd sizes", 400_001, 3, odd...),
		bulk("send, 3 queue pairs, odd sizes", 400_001, 3, odd...),
	}
}

// bulk returns a run of the job. name begins with the operation.
func bulk(name string, bytes, qps int, flags ...string) exercise {
	completes := map[string]string{"write": "IBV_WC_RDMA_WRITE", "read": "IBV_WC_RDMA_READ", "send": "IBV_WC_SEND"}
	op, _, _ := strings.Cut(name, ",")
	size := strconv.Itoa(bytes)
	return exercise{
		name:   "bulk, " + name,
		server: []string{"--max-size", "1M"},
		client: append([]string{"--job", "bulk", "--op", op, "--size", size, "--qps", strconv.Itoa(qps)}, flags...),
		clientEvents: []wantEvent{
			wants("bulk.begun", "op", op, "bytes", bytes, "qps", qps),
			wants("wr.posted", "verb", "ibv_post_send", "wr_id", 0),
			wants("wr.completed", "opcode", completes[op], "status", "IBV_WC_SUCCESS"),
			wants("bulk.done", "bytes", bytes, "sum", " of "+size+" bytes"),
		},
		serverEvents: []wantEvent{
			wants("bulk.begun", "op", op, "bytes", bytes, "qps", qps),
			wants("bulk.done", "bytes", bytes, "sum", " of "+size+" bytes"),
		},
		more: func(t *testing.T, c, s *process) {
			if mine, peers := c.find("bulk.done").str("sum"), s.find("bulk.done").str("sum"); mine != peers || !strings.HasPrefix(mine, "xxh64 ") {
				t.Errorf("the client's sum is %q, the server's %q", mine, peers)
			}
			for _, p := range []*process{c, s} {
				made := 0
				for _, r := range p.all("object.made") {
					if r.str("verb") == "ibv_create_qp" {
						made++
					}
				}
				if made != qps {
					t.Errorf("%s made %d queue pairs, want %d", p.name, made, qps)
				}
			}
		},
	}
}

// TestBulkShapes runs the smallest windows, and windows that have more slots than the data
// has chunks.
func TestBulkShapes(t *testing.T) {
	noLeak(t)
	one := []string{"--chunk", "5000", "--outstanding", "1", "--signal-every", "1"}
	for _, e := range []exercise{
		bulk("write, one at a time", 50_000, 1, one...),
		bulk("read, one at a time", 50_000, 1, one...),
		bulk("send, one at a time", 50_000, 1, one...),
		bulk("write, more queue pairs than chunks", 10, 4, "--chunk", "8"),
		bulk("read, more queue pairs than chunks", 10, 4, "--chunk", "8"),
		bulk("send, more queue pairs than chunks", 10, 4, "--chunk", "8"),
		bulk("write, one byte", 1, 1, "--chunk", "1"),
		bulk("read, seven slots", 100_000, 1, "--chunk", "1000", "--outstanding", "7", "--signal-every", "7"),
	} {
		t.Run(e.name, func(t *testing.T) { e.run(t) })
	}
}

// TestBulkWindowAboveLimit checks that the client refuses a window above the server's
// limit before it allocates memory. The server refuses a client that does not check.
func TestBulkWindowAboveLimit(t *testing.T) {
	noLeak(t)
	s := serve(t, "--max-size", "1M")
	c := s.client(t, "--job", "bulk", "--chunk", "128K")
	c.fails(1, "16 chunks of 128K bytes in flight need a region of 2M bytes", "at most 1M", "--chunk, --outstanding or --qps", "rdma_server --max-size 2M")
	s.event("client.failed", "error", "need a region of 2M bytes")

	greedy := bulkHello(map[string]string{"bytes": "1099511627776", "chunk": "1073741824", "outstanding": "1024"})
	refused(t, s, greedy, "1024 chunks of 1G bytes in flight need a region of 1T bytes")
	s.stillServes(t)
	s.stops()
}

// bulkHello returns a client's valid hello, with the parameters in other replaced.
func bulkHello(other map[string]string) oob.Hello {
	h := oob.Hello{Role: oob.RoleClient, Job: "bulk", Program: "e2e", Params: map[string]string{
		"op": "write", "bytes": "65536", "chunk": "4096", "outstanding": "4", "qps": "1", "seed": "0", "max_size": "67108864",
	}}
	maps.Copy(h.Params, other)
	return h
}

// refused checks that the server refuses a hello.
func refused(t *testing.T, s *server, h oob.Hello, want string) {
	t.Helper()
	nc := dialRaw(t, s)
	c := oob.NewConn(nc, oob.Options{Timeout: testkit.Limit})
	defer c.Close()
	if _, err := c.Hello(testkit.Context(t), h); err != nil {
		t.Fatal(err)
	}
	_, err := c.ExchangeEndpoint(testkit.Context(t), endpoint())
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the client hears %v, want %q", err, want)
	}
	s.event("client.failed", "peer", nc.LocalAddr().String(), "error", want)
}

// TestBulkDeath kills one end during the job. The other end must report that, and a server
// must keep serving.
func TestBulkDeath(t *testing.T) {
	noLeak(t)
	for _, op := range []string{"write", "read", "send"} {
		t.Run(op, func(t *testing.T) {
			long := []string{never, "--job", "bulk", "--size", "1T", "--qps", "2", "--op", op}
			s := serve(t, never)
			c := s.client(t, long...)
			s.event("bulk.begun")
			c.event("wr.completed")
			c.signal(os.Kill)
			s.event("client.failed", "error", "the connection")
			s.stillServes(t)

			if op == "write" {
				c = s.client(t, long...)
				c.event("wr.completed")
				c.signal(os.Interrupt)
				c.fails(130, "SIGINT")
				s.event("client.failed", "error", "stopped by SIGINT")
			}

			c = s.client(t, long...)
			c.event("wr.completed")
			s.signal(os.Kill)
			c.fails(1, "waiting for")
		})
	}
}

// TestBulkStall runs a server that acknowledges all data but gives no credit. The client
// must report the stall while it lasts, and fail after --timeout.
func TestBulkStall(t *testing.T) {
	noLeak(t)
	var c *process
	runsOut(t, func() *process {
		c, _, _ = tryBulkServer(t, verbs.AccessLocalWrite|verbs.AccessRemoteWrite, "--op", "write", "--timeout", "3s")
		return c
	}, "waiting for the peer's credit: the job made no progress for 3s", "--timeout")
	if c.find("bulk.stall", "level", "WARN", "hint", "the peer's program gave no credit") == nil {
		t.Error("the client did not report the stall")
	}
}

// TestBulkRows checks that the rows of --csv add up to the moved bytes, and that a run that
// cannot begin does not change the file.
func TestBulkRows(t *testing.T) {
	noLeak(t)
	file := filepath.Join(t.TempDir(), "rows.csv")
	old := strings.Repeat("written over\n", 1000)
	if err := os.WriteFile(file, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	s := serve(t)
	start(t, "rdma_client", "--job", "bulk", "--csv", file, ipv4, device, freePort(t)).fails(1, "connection refused")
	if got, err := os.ReadFile(file); err != nil || string(got) != old {
		t.Fatalf("a run that failed to start has left: %q, %v", got, err)
	}
	c := s.client(t, "--job", "bulk", "--size", "16M", "--csv", file)
	c.succeeds()
	s.stops()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(rows[0], ","); got != "seconds,bytes,mib_per_s,completions,stalls" || len(rows) < 2 {
		t.Fatalf("%d rows under %s", len(rows), got)
	}
	sums, last := map[string]float64{}, 0.0
	for _, row := range rows[1:] {
		for i, text := range row {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil || n < 0 {
				t.Fatalf("row %v: %v", row, err)
			}
			sums[rows[0][i]] += n
		}
		at, _ := strconv.ParseFloat(row[0], 64)
		if at < last {
			t.Errorf("row %v comes after %v s", row, last)
		}
		last = at
	}
	done := c.find("bulk.done")
	for _, key := range []string{"bytes", "completions", "stalls"} {
		if sums[key] != done[key].(float64) {
			t.Errorf("the rows have %v %s, the job had %v", sums[key], key, done[key])
		}
	}
}

// TestBulkRowsOnFullDisk checks that a full disk ends the job at both ends.
func TestBulkRowsOnFullDisk(t *testing.T) {
	noLeak(t)
	s := serve(t)
	c := s.client(t, "--job", "bulk", "--size", "1T", "--csv", "/dev/full")
	c.fails(1, "--csv", "/dev/full", "no space left on device", "try: a file on a disk with free space")
	s.event("client.failed", "error", "no space left on device")
	s.stillServes(t)
	s.stops()
}

// bulkPeer connects to a server for the job and posts one WRITE_WITH_IMM of a chunk.
func bulkPeer(t *testing.T, s *server, imm uint32, bytes int) {
	t.Helper()
	var mr *verbs.MR
	hello := bulkHello(nil)
	conn, err := rc.Dial(testkit.Context(t), s.address(), rc.Config{
		Device: openDevice(t), Job: hello.Job, Params: hello.Params, Timeout: testkit.Limit,
		Prepare: func(c *rc.Conn) (err error) {
			if mr, err = c.AllocMR("rubbish", 4096, verbs.AccessLocalWrite); err != nil {
				return err
			}
			return c.QP().PostRecv([]verbs.RecvWR{{}, {}, {}, {}})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	region, ok := conn.PeerRegion("buffer")
	if !ok || region.Length != 4*4096 {
		t.Fatalf("the server shares %+v", region)
	}
	err = conn.QP().PostSend([]verbs.SendWR{{
		Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: imm, SGL: []verbs.SGE{mr.SGE(0, bytes)}, RemoteAddr: region.Addr, RKey: region.RKey,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.WaitRecv(testkit.Context(t)); err == nil || !strings.Contains(err.Error(), "failed at step") {
		t.Errorf("the client hears %v", err)
	}
}

// TestBulkLies checks that the server detects a client that does not keep to its hello.
func TestBulkLies(t *testing.T) {
	noLeak(t)
	s := serve(t)
	for _, c := range []struct {
		imm   uint32
		bytes int
		want  string
	}{
		{0, 4096, "the received data differs from the data sent, from byte 0 on, in chunk 0"},
		{0, 100, "chunk 0 arrived with 100 bytes, expected 4096"},
		{4, 4096, "with the immediate 4 arrived for an unexpected chunk, after 0 of 16"},
		{0xffffffff, 4096, "with the immediate 4294967295 arrived for an unexpected chunk"},
	} {
		t.Run(c.want, func(t *testing.T) {
			bulkPeer(t, s, c.imm, c.bytes)
			s.event("client.failed", "error", c.want)
		})
	}
	s.stillServes(t)
	s.stops()
}

// bulkServer runs a server in this process and a client. The server connects with a window
// of 16 chunks of 64 KiB, posts receives for them, and does nothing more.
func bulkServer(t *testing.T, access verbs.Access, flags ...string) (*process, *rc.Conn) {
	t.Helper()
	c, conn, err := tryBulkServer(t, access, flags...)
	if err != nil {
		t.Fatal(err)
	}
	return c, conn
}

// tryBulkServer is bulkServer with a client that may fail before it is connected.
func tryBulkServer(t *testing.T, access verbs.Access, flags ...string) (*process, *rc.Conn, error) {
	t.Helper()
	dev := openDevice(t)
	l, err := rc.Listen(testkit.Context(t), net.JoinHostPort(ipv4, "0"), rc.ListenConfig{Params: map[string]string{"max_size": "67108864"}, Timeout: testkit.Limit})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := start(t, "rdma_client", append(flags, "--json", "--job", "bulk", "--size", "2M", "--chunk", "64K", ipv4, device, port)...)
	in, err := l.Accept(testkit.Context(t))
	if err != nil {
		return c, nil, err
	}
	if _, err := in.Hello(testkit.Context(t)); err != nil {
		return c, nil, err
	}
	conn, err := in.Connect(testkit.Context(t), rc.Config{Device: dev, Timeout: testkit.Limit, Access: access &^ verbs.AccessLocalWrite, Prepare: func(c *rc.Conn) error {
		mr, err := c.AllocMR("window", 1<<20, access)
		if err != nil {
			return err
		}
		c.Share("buffer", mr)
		return c.QP().PostRecv(make([]verbs.RecvWR, 16))
	}})
	if err != nil {
		return c, nil, err
	}
	t.Cleanup(func() { conn.Close() })
	return c, conn, nil
}

// TestBulkServerLies checks that the client detects a server that offers more than the
// window.
func TestBulkServerLies(t *testing.T) {
	noLeak(t)
	c, conn := bulkServer(t, verbs.AccessRemoteRead, "--op", "read")
	if err := conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Imm: 17, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	c.fails(1, "IBV_WC_RECV with the immediate 17 arrived as a credit, but the count was 0 of 32")
}

// TestBulkServerOffersWrongData checks that the client detects data that does not match the
// seed.
func TestBulkServerOffersWrongData(t *testing.T) {
	noLeak(t)
	c, conn := bulkServer(t, verbs.AccessRemoteRead, "--op", "read")
	if err := conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Imm: 16, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	c.fails(1, "the received data differs from the data sent, from byte", "in chunk 0", "0x00 instead of")
}
