package e2e

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

var exchangeJobs = []string{"exchange-write", "exchange-read"}

// The transitions of the two state machines, as the programs print them.
var (
	allSends = []string{"SS_INIT→SS_MR_SENT", "SS_MR_SENT→SS_RDMA_SENT", "SS_RDMA_SENT→SS_DONE_SENT"}
	allRecvs = []string{"RS_INIT→RS_MR_RECV", "RS_MR_RECV→RS_DONE_RECV"}
)

func exchangeExercises() (all []exercise) {
	const greeting = "message from passive/server side with pid "
	for _, job := range exchangeJobs {
		run := func(name, text, reply string, flags ...string) {
			rdma := strings.ToUpper(strings.TrimPrefix(job, "exchange-")) // WRITE or READ
			tells := func(mine, peers string) []wantEvent {
				return []wantEvent{
					wants("wr.posted", "verb", "ibv_post_recv", "wr_id", 1, "bytes", 64),
					wants("wr.posted", "verb", "ibv_post_recv", "wr_id", 2, "bytes", 64),
					wants("exchange.message", "msg", "send MSG_MR"),
					wants("wr.posted", "msg", "post RDMA_"+rdma),
					wants("wr.completed", "opcode", "IBV_WC_RDMA_"+rdma, "status", "IBV_WC_SUCCESS"),
					wants("exchange.message", "msg", "send MSG_DONE"),
					wants("qp.drained", "flushed", 0),
				}
			}
			all = append(all, exercise{
				name:         job + ", " + name,
				client:       append([]string{"--job", job, "-s", text}, flags...),
				clientEvents: tells(text, reply),
				serverEvents: tells(reply, text),
				more: func(t *testing.T, c, s *process) {
					for _, p := range []*process{c, s} {
						expectMoves(t, p, allSends, allRecvs)
					}
					expectText(t, c, "message.sent", text, len(text))
					expectText(t, s, "message.received", text, len(text))
					expectText(t, s, "message.sent", reply, -1)
					expectText(t, c, "message.received", reply, -1)
					if cut := s.find("message.sent").str("text"); cut != c.find("message.received").str("text") {
						t.Errorf("the server's text is %q, and the client received another", cut)
					}
				},
			})
		}
		run("UTF-8", "你好，我在测试RDMA SEND DEMO，可以看到我的消息吗？", greeting)
		run("nothing", "", greeting)
		run("all of a region of one byte", "x", greeting[:1], "--size", "1")
		run("many packets", strings.Repeat("0123456789abcdef", 6400), greeting, "--size", "1M")
		all = append(all, leaveEarlyExercise(job))
	}
	return all
}

// leaveEarlyExercise runs --leave-early: exactly one request is flushed, and the programs
// explain it.
func leaveEarlyExercise(job string) exercise {
	return exercise{
		name:   job + ", --leave-early",
		client: []string{"--job", job, "--leave-early"},
		clientEvents: []wantEvent{
			wants("peer.disconnected", "send", "SS_DONE_SENT", "receive", "RS_MR_RECV"),
			wants("wr.completed", "wr_id", 2, "status", "IBV_WC_WR_FLUSH_ERR"),
			wants("lab.explained", "msg", "Flushed: work request 2, the receive for MSG_DONE. Status 5"),
			wants("lab.explained", "msg", "A flush is a consequence, never a cause"),
			wants("lab.explained", "msg", "The first cause: the server left"),
			wants("lab.explained", "msg", "Without --leave-early the same receive completes with status 0"),
			wants("qp.drained", "flushed", 0),
		},
		serverEvents: []wantEvent{
			wants("leave.early", "send", "SS_RDMA_SENT", "receive", "RS_DONE_RECV"),
			wants("qp.transition", "from", "RTS", "to", "ERR"),
			wants("qp.drained", "flushed", 0),
		},
		more: func(t *testing.T, c, s *process) {
			expectMoves(t, c, allSends, allRecvs[:1])
			expectMoves(t, s, allSends[:2], allRecvs)
			for p, want := range map[*process]int{c: 1, s: 0} {
				flushes := 0
				for _, r := range p.all("wr.completed") {
					if r.str("status") != "IBV_WC_SUCCESS" {
						flushes++
					}
				}
				if flushes != want {
					t.Errorf("%s logged %d failed completions, want %d", p.name, flushes, want)
				}
			}
		},
	}
}

func expectMoves(t *testing.T, p *process, sends, recvs []string) {
	t.Helper()
	got := map[string][]string{}
	for _, r := range p.all("state.changed") {
		got[r.str("machine")] = append(got[r.str("machine")], r.str("from")+"→"+r.str("to"))
		if r.str("because") == "" {
			t.Errorf("%s: a move without its reason: %v", p.name, r)
		}
	}
	if !slices.Equal(got["send"], sends) || !slices.Equal(got["receive"], recvs) {
		t.Errorf("%s: the machines went %v, want %v and %v", p.name, got, sends, recvs)
	}
}

func expectText(t *testing.T, p *process, event, begins string, length int) {
	t.Helper()
	r := p.find(event)
	if r == nil || !strings.HasPrefix(r.str("text"), begins) || length >= 0 && len(r.str("text")) != length {
		t.Errorf("%s: %s %.200v, want %.100q…", p.name, event, r, begins)
	}
}

// TestExchangeTooLarge checks texts and regions above the limits.
func TestExchangeTooLarge(t *testing.T) {
	noLeak(t)
	s := serve(t, "--max-size", "10")
	for _, job := range exchangeJobs {
		s.client(t, "--job", job, "--size", "5", "-s", "sixsix").fails(2, "the text has 6 bytes", "region 5", "--size 6")
		s.client(t, "--job", job, "--size", "1T", "-s", "").fails(1, "the client asks for 1T bytes", "at most 10", "--max-size")
		s.client(t, "--job", job, "--size", "10", "-s", "ten bytes.").succeeds()
	}
	s.client(t, "--leave-early").fails(2, "--leave-early is not a flag of the job send")
	s.stops()
}

// exchanger is an end in this process that may send any message in any order. It implements
// the documented message layout and shares no code with the jobs.
type exchanger struct {
	*rc.Conn
	region *verbs.MR // the peer may write and read it; this end sends from it
	shares string    // the region's name over TCP; "": the region is not announced
}

func (e *exchanger) prepare(c *rc.Conn) (err error) {
	e.region, err = c.AllocMR("stranger's", 8192, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
	if err == nil && e.shares != "" {
		c.Share(e.shares, e.region)
	}
	for i := range 2 {
		if err == nil {
			err = c.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.region.SGE(4096+64*i, 64)}}})
		}
	}
	return err
}

func (e *exchanger) config(t *testing.T, dev *verbs.Device, job string) rc.Config {
	return rc.Config{
		Device: dev, Job: job, Program: "e2e", Params: map[string]string{"size": "4096", "max_size": "4096"}, Timeout: testkit.Limit,
		Access: verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic, Prepare: e.prepare,
	}
}

// rawClient returns an exchanger that is connected to a server.
func rawClient(t *testing.T, s *server, job string) *exchanger {
	t.Helper()
	e := &exchanger{}
	var err error
	if e.Conn, err = rc.Dial(testkit.Context(t), s.address(), e.config(t, openDevice(t), job)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// rawServer returns an exchanger and the real client that is connected to it.
func rawServer(t *testing.T, job, shares string, flags ...string) (*exchanger, *process) {
	t.Helper()
	e, dev := &exchanger{shares: shares}, openDevice(t)
	listen, cfg := forServer(e.config(t, dev, job))
	l, err := rc.Listen(testkit.Context(t), net.JoinHostPort(ipv4, "0"), listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := start(t, "rdma_client", append(flags, "--job", job, "--json", ipv4, device, port)...)
	in, err := l.Accept(testkit.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Hello(testkit.Context(t)); err != nil {
		in.Refuse(err)
		t.Fatal(err)
	}
	if e.Conn, err = in.Connect(testkit.Context(t), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e, c
}

// post posts a SEND and does not wait for its completion.
func (e *exchanger) post(t *testing.T, message []byte) {
	t.Helper()
	n := copy(e.region.Bytes(), message)
	if err := e.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.region.SGE(0, n)}}}); err != nil {
		t.Fatal(err)
	}
}

// sent waits until the posted SENDs are acknowledged.
func (e *exchanger) sent(t *testing.T) {
	t.Helper()
	if _, err := e.WaitSend(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
}

// peersMR waits for the peer's MSG_MR.
func (e *exchanger) peersMR(t *testing.T) (addr uint64, rkey uint32) {
	t.Helper()
	if wc, err := e.WaitRecv(testkit.Context(t)); err != nil || wc.ByteLen != 40 {
		t.Fatalf("the peer's MSG_MR: %+v, %v", wc, err)
	}
	m := e.region.Bytes()[4096:]
	return binary.BigEndian.Uint64(m[8:]), binary.BigEndian.Uint32(m[16:])
}

func exchangeMessage(kind byte, addr uint64, rkey, crc uint32, length, bytes uint64) []byte {
	b := append([]byte("RVX1"), kind, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, addr)
	b = binary.BigEndian.AppendUint32(b, rkey)
	b = binary.BigEndian.AppendUint32(b, crc)
	b = binary.BigEndian.AppendUint64(b, length)
	return binary.BigEndian.AppendUint64(b, bytes)
}

func exchangeDone(text string) []byte {
	crc := crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
	return exchangeMessage(2, 0, 0, crc, 0, uint64(len(text)))
}

// mr returns this end's MSG_MR, with an empty text.
func (e *exchanger) mr() []byte {
	return exchangeMessage(1, e.region.Addr()+2048, e.region.RKey(), 0, 2048, 0)
}

// TestExchangeMisbehavingClient runs clients that break the job's protocol. The server must report
// each fault in one error, send the error to the client, and keep serving.
func TestExchangeMisbehavingClient(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t)
	say := func(messages ...func(*exchanger) []byte) func(*testing.T, *exchanger) {
		return func(t *testing.T, e *exchanger) {
			for i, m := range messages {
				if i > 0 {
					e.sent(t)
				}
				e.post(t, m(e))
			}
		}
	}
	of := func(b []byte) func(*exchanger) []byte { return func(*exchanger) []byte { return b } }
	mr := (*exchanger).mr
	tests := []struct {
		name string
		jobs []string
		do   func(*testing.T, *exchanger)
		want []string // in the server's error
	}{
		{"MSG_DONE first", exchangeJobs, say(of(exchangeDone(""))), []string{"MSG_DONE came in the state RS_INIT", "belongs to RS_MR_RECV", "try: a peer"}},
		{"MSG_MR twice", exchangeJobs, say(mr, mr), []string{"MSG_MR came in the state RS_MR_RECV", "belongs to RS_INIT"}},
		{"nothing in it", exchangeJobs, say(of(nil)), []string{"it has 0 bytes, but a message has 40"}},
		{"too short", exchangeJobs, say(of(exchangeDone("")[:39])), []string{"it has 39 bytes"}},
		{"a text", exchangeJobs, say(of([]byte("message from active/client side with pid"))), []string{`it begins with "mess"`}},
		{"an unknown type", exchangeJobs, say(of(exchangeMessage(7, 0, 0, 0, 0, 0))), []string{"message type 7"}},
		{"larger than any message", exchangeJobs, say(of(make([]byte, 65))), []string{"IBV_"}},
		{"region beyond the last address", exchangeJobs, say(of(exchangeMessage(1, 1<<63, 1, 0, 1<<63+1, 0))), []string{"beyond the last address"}},
		{"an rkey of nobody's", []string{"exchange-write"}, say(of(exchangeMessage(1, 4096, 0xdead, 0, 4096, 0))), []string{"IBV_WC_REM_ACCESS_ERR"}},
		{"an rkey of nobody's to read", []string{"exchange-read"}, say(of(exchangeMessage(1, 4096, 0xdead, 0, 4096, 9))), []string{"IBV_WC_REM_ACCESS_ERR"}},
		{"a region too small", []string{"exchange-write"}, say(of(exchangeMessage(1, 4096, 1, 0, 3, 0))), []string{"but the peer's region 3"}},
		{"a text too large", []string{"exchange-read"}, say(of(exchangeMessage(1, 4096, 1, 0, 1<<40, 1<<40))), []string{"the peer's text has 1099511627776 bytes, but this end can READ at most 4096"}},
		{"a text that is not there", []string{"exchange-read"}, say(func(e *exchanger) []byte {
			return exchangeMessage(1, e.region.Addr()+2048, e.region.RKey(), 0xbad, 2048, 10)
		}), []string{"read from the peer's region: 10 bytes of CRC-32C", "the peer reports 10 bytes of CRC-32C 0x00000bad"}},
		{"done with more than the region", []string{"exchange-write"}, say(mr, of(exchangeMessage(2, 0, 0, 0, 0, 1<<63))), []string{"a WRITE of 9223372036854775808 bytes into a region of 4096"}},
		{"done without a WRITE", []string{"exchange-write"}, say(mr, of(exchangeDone("not written"))), []string{"the peer wrote into this end's region: 11 bytes", "the peer reports 11 bytes"}},
		{"done without a READ", []string{"exchange-read"}, say(mr, of(exchangeDone("not read"))), []string{"the peer READ 8 bytes", "were there"}},
		{"a WRITE with immediate instead of a SEND", []string{"exchange-write"}, func(t *testing.T, e *exchanger) {
			e.post(t, e.mr())
			e.sent(t)
			addr, rkey := e.peersMR(t)
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, RemoteAddr: addr, RKey: rkey, SGL: []verbs.SGE{e.region.SGE(0, 4096)}}
			if err := e.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
		}, []string{"IBV_WC_RECV_RDMA_WITH_IMM of 4096 bytes, expected a SEND of 40"}},
		{"a WRITE where READs are the job", []string{"exchange-read"}, func(t *testing.T, e *exchanger) {
			e.post(t, e.mr())
			e.sent(t)
			addr, rkey := e.peersMR(t)
			wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: addr, RKey: rkey, SGL: []verbs.SGE{e.region.SGE(0, 1)}}
			if err := e.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
			if wc, err := e.WaitSend(testkit.Context(t)); err == nil {
				t.Errorf("the WRITE was let in: %+v", wc)
			}
		}, []string{"IBV_"}}, // the flushed completion or the device's event reports it
	}
	for _, test := range tests {
		for _, job := range test.jobs {
			t.Run(job+"/"+test.name, func(t *testing.T) {
				failures := s.failures()
				e := rawClient(t, s, job)
				test.do(t, e)
				r := s.nextFailure(failures)
				for _, want := range test.want {
					if !strings.Contains(r.str("error"), want) {
						t.Errorf("the server's error lacks %q: %s", want, r.str("error"))
					}
				}
			})
		}
	}
	s.stillServes(t)
	s.stops()
}

// TestExchangeMisbehavingServer runs a server that breaks the order of the messages.
func TestExchangeMisbehavingServer(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, job := range exchangeJobs {
		t.Run(job, func(t *testing.T) {
			e, c := rawServer(t, job, "")
			e.post(t, exchangeDone(""))
			c.fails(1, "MSG_DONE came in the state RS_INIT", "try: a peer")
			// The client must report the fault to the server.
			if _, err := e.TCP().RecvNote(testkit.Context(t), "none"); err == nil || !strings.Contains(err.Error(), "MSG_DONE came in the state RS_INIT") {
				t.Errorf("the server got %v", err)
			}
		})
	}
}

// exchangeSteps are the steps after which a peer dies.
var exchangeSteps = []struct {
	name string
	do   func(*testing.T, *exchanger)
}{
	{"connected", func(*testing.T, *exchanger) {}},
	{"MSG_MR posted", func(t *testing.T, e *exchanger) { e.post(t, e.mr()) }},
	{"MSG_MR sent", func(t *testing.T, e *exchanger) { e.sent(t) }},
	{"MSG_MR received", func(t *testing.T, e *exchanger) { e.peersMR(t) }},
}

// TestExchangePeerDies lets the peer die at each step. As in a killed process, its TCP
// connection closes too. The other end notices that, and not only at its --timeout.
func TestExchangePeerDies(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	s := serve(t, never)
	for _, job := range exchangeJobs {
		for steps := range exchangeSteps {
			die := func(t *testing.T, e *exchanger) {
				for _, step := range exchangeSteps[:steps+1] {
					step.do(t, e)
				}
				e.Close()
			}
			name := job + ", " + exchangeSteps[steps].name
			t.Run("client/"+name, func(t *testing.T) {
				failures := s.failures()
				e := rawClient(t, s, job)
				die(t, e)
				s.nextFailure(failures)
			})
			t.Run("server/"+name, func(t *testing.T) {
				e, c := rawServer(t, job, "", never)
				die(t, e)
				c.fails(1, "closed the connection", "look at its output")
			})
		}
	}
	s.stillServes(t)
	s.stops()
}

// failures returns the number of clients that have failed; nextFailure waits for one more.
func (s *server) failures() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all("client.failed"))
}

func (s *server) nextFailure(after int) (next record) {
	s.t.Helper()
	s.await("failure of one more client", func() bool {
		if all := s.all("client.failed"); len(all) > after {
			next = all[after]
		}
		return next != nil
	})
	return next
}

// TestExchangeKilled kills the real programs with kill -9 at each transition of their state
// machines. A program may get further before the signal arrives, even to the end.
func TestExchangeKilled(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	for _, job := range exchangeJobs {
		s := serve(t)
		for _, to := range []string{"SS_MR_SENT", "RS_MR_RECV", "SS_RDMA_SENT", "SS_DONE_SENT", "RS_DONE_RECV"} {
			t.Run(job+"/client in "+to, func(t *testing.T) {
				c := s.client(t, "--job", job)
				c.event("state.changed", "to", to)
				kill(t, c)
				s.held.expect(t, s)
			})
			t.Run(job+"/server in "+to, func(t *testing.T) {
				dying := serve(t)
				c := dying.client(t, "--job", job)
				dying.event("state.changed", "to", to)
				kill(t, dying.process)
				if c.wait() != 0 {
					c.fails(1, "connection")
				}
			})
		}
		s.client(t, "--job", job).succeeds()
		s.stops()
	}
}

func kill(t *testing.T, p *process) {
	t.Helper()
	p.cmd.Process.Kill() // fails if the process has already ended
	p.wait()
}

// TestLeaveEarlyWithoutLeaving runs a client with --leave-early against a server that does
// not disconnect.
func TestLeaveEarlyWithoutLeaving(t *testing.T) {
	noLeak(t)
	e, c := rawServer(t, "exchange-write", "", "--leave-early")
	if params := e.PeerHello().Params; params["leave_early"] != "1" {
		t.Errorf("the client's parameters: %v", params)
	}
	e.post(t, e.mr())
	e.sent(t)
	e.post(t, exchangeDone(""))
	// From here on the client may have received MSG_DONE and failed.
	if _, err := e.WaitSend(testkit.Context(t)); err != nil && !errors.As(err, new(*oob.PeerError)) {
		t.Fatal(err)
	}
	// Send the note of a server that has disconnected, but stay in RTS.
	if err := e.TCP().SendNote(testkit.Context(t), oob.Note{Name: "disconnected"}); err != nil && !errors.As(err, new(*oob.PeerError)) {
		t.Fatal(err)
	}
	c.fails(1, "the server should have left before")
}
