// The job of RDMA_RC_example: the server SENDs a text, the client READs another
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

package lab

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var rcExampleJob = job{
	name:  "rc-example",
	about: "the server SENDs a text, the client READs one and WRITEs one",
	flags: []string{"text", "size"},
	size:  16, // the program's MSG_SIZE in its smallest copy; 18 and 64 are about too
	client: func(o ClientOptions) (half, error) {
		return newRCExample(&o.Options, &o.JobOptions, "RDMA write operation", false)
	},
	server: func(v visit) (half, error) {
		return newRCExample(&v.Options, &v.JobOptions, "SEND operation", true)
	},
}

// rcExampleRoom is the least size of the buffer: a copy of the program with larger
// messages READs and WRITEs as many bytes as those have.
const rcExampleRoom = 64

// rcExample is either end.
type rcExample struct {
	narrator
	server bool
	size   int
	text   string // what the server SENDs, the client WRITEs
	buffer *verbs.MR
	peer   oob.RCExample
}

func newRCExample(o *Options, j *JobOptions, text string, server bool) (half, error) {
	if j.Text != "" {
		text = j.Text
	}
	if o.MTU != 0 && o.MTU != oob.RCExampleMTU {
		return nil, Usagef("RDMA_RC_example has a path MTU of %d and does not exchange it, so that %d would lose packets; try: without --mtu", oob.RCExampleMTU, o.MTU)
	}
	if server && len(text) >= int(j.Size) {
		if j.Text != "" {
			return nil, Usagef("the message has %d bytes with its NUL, and the peer's receive %v; try: a shorter one, or --size %d if the peer's MSG_SIZE is that", len(text)+1, j.Size, len(text)+1)
		}
		text = cut(text, int(j.Size)-1)
	}
	return &rcExample{narrator: narrator{o.Logger}, server: server, size: int(j.Size), text: text}, nil
}

func (e *rcExample) configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.MTU, cfg.PSN, cfg.MaxReads = oob.RCExampleMTU, new(uint32), 1
	cfg.Access = verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	cfg.Timing = &rc.Timing{Timeout: 18, RetryCnt: 6, RNRRetry: 0, MinRNRTimer: 18}
}

// prepare posts the client's receive, in INIT: with RNR_RETRY 0 a SEND that finds
// none fails at once.
func (e *rcExample) prepare(c *rc.Conn) (err error) {
	size := max(e.size, rcExampleRoom)
	if e.buffer, err = c.AllocMR("buffer", size, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite); err != nil {
		return err
	}
	if e.server {
		return nil
	}
	return e.postRecv(c.QP(), verbs.RecvWR{ID: idRecv, SGL: []verbs.SGE{e.buffer.SGE(0, size)}})
}

func (e *rcExample) exchange(ctx context.Context, c *rc.Conn, up func([]oob.Endpoint) error) error {
	local := c.Local()
	mine, err := oob.AppendRCExample(nil, oob.RCExample{
		Addr: e.buffer.Addr(), RKey: e.buffer.RKey(), QPN: local.QPN, LID: local.LID, GID: local.GID})
	if err != nil {
		return err
	}
	data, err := e.raw(c).swap(ctx, "connection data", mine)
	if err != nil {
		return err
	}
	if e.peer, err = oob.DecodeRCExample(data); err != nil {
		return err
	}
	peer := asHere(local, oob.Endpoint{QPN: e.peer.QPN, LID: e.peer.LID, GID: e.peer.GID}) // its PSN is 0
	if err := up([]oob.Endpoint{peer}); err != nil {
		return err
	}
	return e.sync(ctx, c, 'Q')
}

// sync waits for the peer. The byte is the original's, and the peer does not look
// at it.
func (e *rcExample) sync(ctx context.Context, c *rc.Conn, mark byte) error {
	_, err := e.raw(c).swap(ctx, fmt.Sprintf("sync %q", mark), []byte{mark})
	return err
}

func (e *rcExample) run(ctx context.Context, c *rc.Conn) error {
	if e.server {
		return e.serve(ctx, c)
	}
	return e.visit(ctx, c)
}

// put puts a text, with its NUL, where the peer finds it.
func (e *rcExample) put(text string, size int) {
	n := copy(e.buffer.Bytes(), cut(text, size-1))
	clear(e.buffer.Bytes()[n:])
}

func (e *rcExample) serve(ctx context.Context, c *rc.Conn) error {
	e.put(e.text, e.size)
	if err := e.do(ctx, c, verbs.SendWR{ID: idSend, Opcode: verbs.OpSend, SGL: []verbs.SGE{e.buffer.SGE(0, e.size)}},
		fmt.Sprintf("the SEND's completion (the peer's receive may be shorter than the %d bytes of --size)", e.size)); err != nil {
		return err
	}
	tell(e.log, "data", "message.sent", "", "message sent", textAttr(e.text), slog.Int("bytes", e.size))
	e.put("RDMA read operation", e.size)
	if err := e.sync(ctx, c, 'R'); err != nil {
		return err
	}
	if err := e.sync(ctx, c, 'W'); err != nil {
		return err
	}
	text := untilNUL(e.buffer.Bytes())
	tell(e.log, "data", "message.received", "", "the client's WRITE left in the buffer", textAttr(text), slog.Int("bytes", len(text)))
	return nil
}

// visit is the client's part. How much there is to READ and to WRITE is not
// exchanged: it is as much as the SEND had.
func (e *rcExample) visit(ctx context.Context, c *rc.Conn) error {
	next, heard := e.raw(c).ahead(ctx, `sync 'R'`, 1)
	wc, err := e.waitRecv(next, c, "the server's SEND")
	if err != nil {
		return err
	}
	size := int(wc.ByteLen)
	if size == 0 {
		return fmt.Errorf("the server's SEND has 0 bytes, so that nothing says how much may be read and written; try: an RDMA_RC_example whose MSG_SIZE is at least 1")
	}
	text := untilNUL(e.buffer.Bytes()[:size])
	tell(e.log, "data", "message.received", "", "message from the server", textAttr(text), slog.Int("bytes", size))

	if err := e.raw(c).send(ctx, `sync 'R'`, []byte{'R'}); err != nil {
		return err
	}
	if _, err := heard(); err != nil {
		return err
	}
	next, heard = e.raw(c).ahead(ctx, `sync 'W'`, 1)
	if err := e.do(next, c, verbs.SendWR{ID: idRead, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{e.buffer.SGE(0, size)}}, "the READ's completion"); err != nil {
		return err
	}
	text = untilNUL(e.buffer.Bytes()[:size])
	tell(e.log, "data", "message.received", "", "READ from the server's buffer", textAttr(text), slog.Int("bytes", size))

	e.put(e.text, size)
	if err := e.do(next, c, verbs.SendWR{ID: idWrite, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{e.buffer.SGE(0, size)}}, "the WRITE's completion"); err != nil {
		return err
	}
	text = untilNUL(e.buffer.Bytes())
	tell(e.log, "data", "message.sent", "", "written into the server's buffer", textAttr(text), slog.Int("bytes", size))
	if err := e.raw(c).send(ctx, `sync 'W'`, []byte{'W'}); err != nil {
		return err
	}
	_, err = heard()
	return err
}

// do posts one request and waits for it.
func (e *rcExample) do(ctx context.Context, c *rc.Conn, wr verbs.SendWR, what string) error {
	wr.Flags, wr.RemoteAddr, wr.RKey = verbs.SendSignaled, e.peer.Addr, e.peer.RKey
	if err := e.postSend(c.QP(), wr); err != nil {
		return err
	}
	_, err := e.waitSend(ctx, c, what)
	return err
}
