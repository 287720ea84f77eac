// Package rocev2learn is the rocev2-learn programs: the client SENDs a text, the server
// SENDs a reply as long as its buffer. Later copies do so over each of several queue pairs.
//
//	client                                  server
//	queue pairs   <- QPN, LID, GID ->       queue pairs
//	INIT, RTR, RTS                          INIT, RTR, RTS, RECV
//	              <- one byte 'R'           (one way)
//	SEND          ->
//	              <- SEND
//
// A C end writes its queue pairs before it reads the peer's, and they are as many at both
// ends. So the server here reads first, and replies in kind; the client here writes what
// --qps selects.
package rocev2learn

import (
	"context"
	"fmt"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/peer"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Peer is the program, for the list in package run.
var Peer = kit.Peer{
	Name:  "rocev2-learn",
	About: "rocev2-learn's rdma_server and rdma_client, in C",
	Port:  oob.DefaultPort,
	Jobs: kit.List{{
		Name:   "rocev2-learn",
		About:  "the client SENDs a text, the server a reply",
		Client: func(f *pflag.FlagSet) kit.Side { return newSide(f, "hello from the client", false) },
		Server: func(f *pflag.FlagSet) kit.Side { return newSide(f, "hello from the server", true) },
	}},
}

// endpoint is either end.
type endpoint struct {
	kit.Tracer
	server bool
	text   string
	size   int // bytes of each message buffer
	qps    int
	later  bool // the format of later copies

	send, recv *verbs.MR   // one buffer to send from, one for each queue pair to receive in
	theirs     []queuePair // the peer's, at the server before its own are made
}

func newSide(f *pflag.FlagSet, text string, server bool) kit.Side {
	var flags kit.Text
	flags.AddFlags(f, text, "each message buffer", 4096)
	qps := 0
	if !server {
		f.IntVar(&qps, "qps", 0, fmt.Sprintf("queue pairs, for later copies of the programs: 1 to %d, usually 4 (default: 1, for an earlier copy)", maxQueuePairs))
	}
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if qps < 0 || qps > maxQueuePairs || qps == 0 && f.Changed("qps") {
			return nil, usage.Errorf("a rocev2-learn program cannot have %d queue pairs; try: --qps 1 to %d", qps, maxQueuePairs)
		}
		e, err := newEndpoint(&s, &flags)
		e.server, e.qps, e.later = server, max(qps, 1), qps > 0
		return e, err
	})
}

func newEndpoint(s *kit.Session, flags *kit.Text) (*endpoint, error) {
	e := &endpoint{Tracer: kit.Tracer{Logger: s.Logger}, text: flags.Text, size: int(flags.Size)}
	if err := kit.CheckBuffer(flags.Size); err != nil {
		return e, err
	}
	if !flags.Chosen() {
		e.text = kit.Cut(e.text, e.size-1)
	}
	if len(e.text) >= e.size {
		return e, usage.Errorf("the message has %d bytes with its NUL, but the buffers have %v; try: a shorter message, or --size %d", len(e.text)+1, flags.Size, len(e.text)+1)
	}
	return e, nil
}

// Greet reads the client's queue pairs, at the server: this end makes as many.
func (e *endpoint) Greet(ctx context.Context, conn *oob.Conn) (err error) {
	if e.theirs, e.later, err = receive(ctx, peer.NewTCP(e.Logger, conn)); err == nil {
		e.qps = len(e.theirs)
	}
	return err
}

func (e *endpoint) Configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.QPs = e.qps
	cfg.PSN, cfg.MaxReads = new(uint32), 1
	cfg.Access = verbs.AccessLocalWrite
	cfg.Timing = &rc.Timing{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 12}
}

// Memory returns the bytes of the buffers.
func (e *endpoint) Memory() int64 { return int64(e.qps+1) * int64(e.size) }

// Prepare posts one receive to each queue pair. A work request is named by the index of its
// queue pair.
func (e *endpoint) Prepare(c *rc.Conn) (err error) {
	if e.send, err = c.AllocMR("to send", e.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	if e.recv, err = c.AllocMR("to receive", e.qps*e.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	for i, qp := range c.QPs() {
		if err := e.PostRecv(qp, verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{e.recv.SGE(i*e.size, e.size)}}); err != nil {
			return err
		}
	}
	return nil
}

func (e *endpoint) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	tcp := peer.NewTCP(e.Logger, c.TCP())
	if err := e.sendMine(ctx, tcp, c.LocalEndpoints()); err != nil {
		return err
	}
	if !e.server {
		list, later, err := receive(ctx, tcp)
		if err != nil {
			return err
		}
		if err := e.fits(len(list), later); err != nil {
			return err
		}
		e.theirs = list
	}
	remote := c.LocalEndpoints()
	for i := range remote {
		remote[i] = e.theirs[i].endpointOf(remote[i])
	}
	if err := up(remote); err != nil {
		return err
	}
	if e.server {
		return tcp.Send(ctx, "ready", []byte{readyByte})
	}
	ready, err := tcp.Receive(ctx, "ready", 1)
	if err == nil && ready[0] != readyByte {
		err = errors.Errorf("the server sent %q, expected 'R', which means that its receives are posted; try: a rocev2-learn server there", ready)
	}
	return err
}

// sendMine sends this end's queue pairs.
func (e *endpoint) sendMine(ctx context.Context, tcp peer.TCP, locals []oob.Endpoint) error {
	var list []queuePair
	for _, local := range locals {
		list = append(list, queuePair{QPN: local.QPN, LID: local.LID, GID: local.GID})
	}
	encode := appendQueuePairs
	if !e.later {
		encode = func(dst []byte, list []queuePair) ([]byte, error) { return packed.Append(dst, list[0]) }
	}
	data, err := encode(nil, list)
	if err != nil {
		return err
	}
	return tcp.Send(ctx, "connection data", data)
}

// receive reads the peer's queue pairs, in either format: each has at least the bytes of
// the earlier one.
func receive(ctx context.Context, tcp peer.TCP) (list []queuePair, later bool, err error) {
	data, err := tcp.Receive(ctx, "connection data", queuePairSize)
	if err != nil {
		return nil, false, err
	}
	n := count(data)
	if n == 0 {
		one, err := packed.Decode(data)
		return []queuePair{one}, false, err
	}
	rest, err := tcp.Receive(ctx, "connection data, the rest", countSize+(n-1)*queuePairSize)
	if err != nil {
		return nil, true, err
	}
	list, err = decodeQueuePairs(append(data, rest...))
	return list, true, err
}

// fits refuses, at the client, a server that is another copy or has other queue pairs.
func (e *endpoint) fits(n int, later bool) error {
	switch {
	case later && !e.later:
		return errors.Errorf("the server is a later copy with %d queue pairs, but this end expects an earlier copy; try: --qps %d", n, n)
	case !later && e.later:
		return errors.New("the server is an earlier copy with one queue pair; try: without --qps")
	case n != e.qps:
		return errors.Errorf("the server has %d queue pairs, but this end has %d; try: --qps %d", n, e.qps, n)
	}
	return nil
}

func (e *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	if !e.server {
		if err := e.sendAll(ctx, c, len(e.text)+1); err != nil {
			return e.unexchanged(c, err)
		}
		return e.unexchanged(c, e.receiveAll(ctx, c, "reply from the server"))
	}
	if err := e.receiveAll(ctx, c, "message from the client"); err != nil {
		return e.unexchanged(c, err)
	}
	return e.unexchanged(c, e.sendAll(ctx, c, e.size))
}

// sendAll SENDs the text, with its NUL, in a message of n bytes over each queue pair.
func (e *endpoint) sendAll(ctx context.Context, c *rc.Conn, n int) error {
	copy(e.send.Bytes(), e.text)
	for i, qp := range c.QPs() {
		wr := verbs.SendWR{ID: uint64(i), Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.send.SGE(0, n)}}
		if err := e.PostSend(qp, wr); err != nil {
			return err
		}
		e.LogText(&event.MessageSent, "message sent", e.text, n)
	}
	for range e.qps {
		if _, err := e.WaitSend(ctx, c, "the SEND's completion"); err != nil {
			return err
		}
	}
	return nil
}

// receiveAll receives one message over each queue pair.
func (e *endpoint) receiveAll(ctx context.Context, c *rc.Conn, what string) error {
	for range e.qps {
		wc, err := e.WaitRecv(ctx, c, "the peer's message")
		if err != nil {
			return err
		}
		data := e.recv.Bytes()[int(wc.ID)*e.size:][:wc.ByteLen]
		e.LogMemory("received", data)
		e.LogText(&event.MessageReceived, what, peer.Text(data), len(data))
	}
	return nil
}

// unexchanged adds the values to an error that are not exchanged and may be its cause.
func (e *endpoint) unexchanged(c *rc.Conn, err error) error {
	return errors.WithMessagef(err, "this end has --mtu %d and --size %d, which are not exchanged and must be the same at the peer", min(c.LocalEndpoints()[0].MTU, c.PeerEndpoints()[0].MTU), e.size)
}
