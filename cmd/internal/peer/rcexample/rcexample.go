// Package rcexample is RDMA_RC_example, the program of the "RDMA Aware Networks
// Programming User Manual": the server SENDs a text, the client READs another
// from the server's buffer, then WRITEs a third into it.
//
//	client                                         server
//	34 bytes             <- address, rkey, QPN ->  34 bytes
//	INIT, RECV, RTR, RTS                           INIT, RTR, RTS
//	sync                 <- one byte ->            sync
//	                     <- SEND                   (RNR_RETRY is 0: the RECV must be there)
//	sync                 <- one byte ->            sync: its buffer has the text to READ
//	READ, WRITE          ->
//	sync                 <- one byte ->            sync: its buffer has what was written
package rcexample

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
	Name:  "rc-example",
	About: "RDMA_RC_example of the RDMA Aware Networks Programming User Manual",
	Port:  defaultPort,
	Jobs: kit.List{{
		Name:   "rc-example",
		About:  "the server SENDs a text, the client READs one and WRITEs one",
		Client: func(f *pflag.FlagSet) kit.Side { return newSide(f, "RDMA write operation", false) },
		Server: func(f *pflag.FlagSet) kit.Side { return newSide(f, "SEND operation", true) },
	}},
}

// defaultSize is MSG_SIZE in bytes in one copy of the program; other copies have 18 and 64.
const defaultSize = 16

// The work requests.
const (
	idRecv = iota + 1
	idSend
	idRead
	idWrite
)

// room is the minimum size of the buffer: copies of the program with larger messages READ and
// WRITE more bytes.
const room = 64

// endpoint is either end.
type endpoint struct {
	kit.Tracer
	server bool
	size   int
	text   string // the server SENDs it, the client WRITEs it
	buffer *verbs.MR
	peer   message
}

func newSide(f *pflag.FlagSet, text string, server bool) kit.Side {
	var flags kit.Text
	flags.AddFlags(f, text, "each message buffer, the peer's MSG_SIZE", defaultSize)
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) { return newEndpoint(&s, &flags, server) })
}

func newEndpoint(s *kit.Session, flags *kit.Text, server bool) (kit.Endpoint, error) {
	text, size := flags.Text, int(flags.Size)
	if s.MTU != 0 && s.MTU != pathMTU {
		return nil, usage.Errorf("RDMA_RC_example has a path MTU of %d and does not exchange it, so packets of %d would be lost; try: without --mtu", pathMTU, s.MTU)
	}
	if err := kit.CheckBuffer(flags.Size); err != nil {
		return nil, err
	}
	if server && len(text) >= size {
		if flags.Chosen() {
			return nil, usage.Errorf("the message has %d bytes with its NUL, but the peer's receive has only %v; try: a shorter message, or --size %d if the peer's MSG_SIZE is that", len(text)+1, flags.Size, len(text)+1)
		}
		text = kit.Cut(text, size-1)
	}
	return &endpoint{Tracer: kit.Tracer{Logger: s.Logger}, server: server, size: size, text: text}, nil
}

func (e *endpoint) tcp(c *rc.Conn) peer.TCP { return peer.NewTCP(e.Logger, c.TCP()) }

func (e *endpoint) Configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.MTU, cfg.PSN, cfg.MaxReads = pathMTU, new(uint32), 1
	cfg.Access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	cfg.Timing = &rc.Timing{Timeout: 18, RetryCnt: 6, RNRRetry: 0, MinRNRTimer: 18}
}

// Memory returns the bytes of the buffer.
func (e *endpoint) Memory() int64 { return int64(max(e.size, room)) }

// Prepare posts the client's receive in INIT, because with RNR_RETRY 0 a SEND without a receive
// fails at once.
func (e *endpoint) Prepare(c *rc.Conn) (err error) {
	size := max(e.size, room)
	if e.buffer, err = c.AllocMR("buffer", size, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	if e.server {
		return nil
	}
	return e.PostRecv(c.QP(), verbs.RecvWR{ID: idRecv, SGL: []verbs.SGE{e.buffer.SGE(0, size)}})
}

func (e *endpoint) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	local := c.LocalEndpoints()[0]
	mine, err := packed.Append(nil, message{
		Addr: e.buffer.Addr(), RKey: e.buffer.RKey(), QPN: local.QPN, LID: local.LID, GID: local.GID})
	if err != nil {
		return err
	}
	data, err := e.tcp(c).Swap(ctx, "connection data", mine)
	if err != nil {
		return err
	}
	if e.peer, err = packed.Decode(data); err != nil {
		return err
	}
	remote := peer.Complete(local, oob.Endpoint{QPN: e.peer.QPN, LID: e.peer.LID, GID: e.peer.GID}) // its PSN is 0
	if err := up([]oob.Endpoint{remote}); err != nil {
		return err
	}
	return e.sync(ctx, c, 'Q')
}

// sync waits for the peer. The byte is the same as in the C program, but the peer ignores it.
func (e *endpoint) sync(ctx context.Context, c *rc.Conn, mark byte) error {
	_, err := e.tcp(c).Swap(ctx, fmt.Sprintf("sync %q", mark), []byte{mark})
	return err
}

func (e *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	if e.server {
		return e.runServer(ctx, c)
	}
	return e.runClient(ctx, c)
}

// put writes a text, with its NUL, into the buffer that the peer reads.
func (e *endpoint) put(text string, size int) {
	n := copy(e.buffer.Bytes(), kit.Cut(text, size-1))
	clear(e.buffer.Bytes()[n:])
}

func (e *endpoint) runServer(ctx context.Context, c *rc.Conn) error {
	e.put(e.text, e.size)
	if err := e.do(ctx, c, verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, SGL: []verbs.SGE{e.buffer.SGE(0, e.size)}},
		fmt.Sprintf("the SEND's completion (the peer's receive may be shorter than the %d bytes of --size)", e.size)); err != nil {
		return err
	}
	e.LogText(&event.MessageSent, "message sent", e.text, e.size)
	e.put("RDMA read operation", e.size)
	if err := e.sync(ctx, c, 'R'); err != nil {
		return err
	}
	if err := e.sync(ctx, c, 'W'); err != nil {
		return err
	}
	text := peer.Text(e.buffer.Bytes())
	e.LogText(&event.MessageReceived, "the client's WRITE left in the buffer", text, len(text))
	return nil
}

// runClient is the client's part. The lengths of the READ and the WRITE are not exchanged: the
// client uses the length of the SEND.
func (e *endpoint) runClient(ctx context.Context, c *rc.Conn) error {
	next, received := e.tcp(c).ReceiveAhead(ctx, `sync 'R'`, 1)
	wc, err := e.WaitRecv(next, c, "the server's SEND")
	if err != nil {
		return err
	}
	size := int(wc.ByteLen)
	if size == 0 {
		return errors.New("the server's SEND has 0 bytes, so the length for READ and WRITE is unknown; try: an RDMA_RC_example whose MSG_SIZE is at least 1")
	}
	text := peer.Text(e.buffer.Bytes()[:size])
	e.LogText(&event.MessageReceived, "message from the server", text, size)

	if err := e.tcp(c).Send(ctx, `sync 'R'`, []byte{'R'}); err != nil {
		return err
	}
	if _, err := received(); err != nil {
		return err
	}
	next, received = e.tcp(c).ReceiveAhead(ctx, `sync 'W'`, 1)
	if err := e.do(next, c, verbs.SendWR{ID: idRead, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{e.buffer.SGE(0, size)}}, "the READ's completion"); err != nil {
		return err
	}
	text = peer.Text(e.buffer.Bytes()[:size])
	e.LogText(&event.MessageReceived, "READ from the server's buffer", text, size)

	e.put(e.text, size)
	if err := e.do(next, c, verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{e.buffer.SGE(0, size)}}, "the WRITE's completion"); err != nil {
		return err
	}
	text = peer.Text(e.buffer.Bytes())
	e.LogText(&event.MessageSent, "written into the server's buffer", text, size)
	if err := e.tcp(c).Send(ctx, `sync 'W'`, []byte{'W'}); err != nil {
		return err
	}
	_, err = received()
	return err
}

// do posts one request and waits for it.
func (e *endpoint) do(ctx context.Context, c *rc.Conn, wr verbs.SendWR, what string) error {
	wr.RemoteAddr, wr.RKey = e.peer.Addr, e.peer.RKey
	_, err := e.Do(ctx, c, wr, what)
	return err
}
