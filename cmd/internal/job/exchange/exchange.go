// Package exchange is the jobs "exchange-write" and "exchange-read". When they begin, neither
// end knows the other's memory. Each end describes its region in a SEND (MSG_MR). Then it
// WRITEs its text into the other's region, or READs the other's text from there, and reports
// that with another SEND (MSG_DONE). The server is the passive side: it answers.
//
//	client                                server
//	  MSG_MR    ------ SEND ------------->
//	            <----- SEND ------------- MSG_MR
//	  the text  ------ WRITE (or READ) -->
//	            <----- WRITE (or READ) -- its text
//	  MSG_DONE  ------ SEND ------------->
//	            <----- SEND ------------- MSG_DONE
//
// The lower two pairs happen at the same time. The order of all steps is in states.go, the
// format of the messages in message.go. leave_early.go shows what happens if the server leaves
// before the last SEND.
//
// The end whose memory is used takes no part in a one-sided operation. MSG_DONE shows this end
// that the operation is over. After a WRITE it means that the text is there: requests of one
// queue pair arrive in order, so an end that has the SEND also has the WRITE before it. After a
// READ it means that the owner of the region may change or free it again. MSG_DONE is posted
// after the completion of the READ, because a SEND may overtake the answer to an earlier READ.
// IBV_SEND_FENCE would also hold it back.
package exchange

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Jobs are the jobs, for the list in package run.
var Jobs = kit.List{
	newType("exchange-write", "exchange regions by SEND, WRITE a text into the other's region, SEND MSG_DONE", false),
	newType("exchange-read", "exchange regions by SEND, READ the other's text, SEND MSG_DONE", true),
}

func newType(name, about string, reads bool) kit.Type {
	return kit.Type{
		Name:   name,
		About:  about,
		Client: func(f *pflag.FlagSet) kit.Side { return newClientSide(f, reads) },
		Server: func(*pflag.FlagSet) kit.Side {
			return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) { return newServer(s, reads) })
		},
	}
}

func newClientSide(f *pflag.FlagSet, reads bool) kit.Side {
	var flags kit.Text
	flags.AddFlags(f, pidText("active/client"), "each end's region", 4096)
	f.Lookup("text").DefValue = "message from active/client side with pid …"
	early := f.Bool("leave-early", false, "the server leaves one completion early, so that a receive is flushed; status 0 if exactly that happens")
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if err := flags.Check("each end's region"); err != nil {
			return nil, err
		}
		return &endpoint{
			Tracer: kit.Tracer{Logger: s.Logger}, reads: reads, text: flags.Text, size: int(flags.Size), serverLeaves: *early,
			states: states{active: true},
		}, nil
	})
}

func newServer(s kit.Session, reads bool) (kit.Endpoint, error) {
	size, err := s.AskedSize()
	if err != nil {
		return nil, err
	}
	leaves, err := s.Params.Flag(paramLeaveEarly)
	return &endpoint{
		Tracer: kit.Tracer{Logger: s.Logger}, reads: reads, text: kit.Cut(pidText("passive/server"), size), size: size,
		states: states{leaves: leaves},
	}, err
}

// pidText returns a text of the same length in every run, because a pid has at most seven
// digits.
func pidText(side string) string {
	return fmt.Sprintf("message from %s side with pid %07d", side, os.Getpid())
}

const paramLeaveEarly = "leave_early" // of the client: "1" if the server should leave before MSG_DONE

// The work requests. Each is posted once.
const (
	idRecvMR = iota + 1
	idRecvDone
	idSendMR
	idRDMA
	idSendDone
)

// endpoint is either end.
type endpoint struct {
	kit.Tracer
	reads        bool // the ends READ; false: they WRITE
	text         string
	size         int  // bytes of the region, and of the longest text
	serverLeaves bool // before MSG_DONE; see leave_early.go

	states states
	region *verbs.MR // memory that the peer writes to or reads from
	own    *verbs.MR // this end's text to WRITE, or memory for the peer's text that it READs
	slots  *verbs.MR // messages: one to send from, two to receive in
	peer   message   // the peer's MSG_MR
}

func (e *endpoint) Configure(cfg *rc.Config) {
	kit.Params(cfg.Params).AskSize(kit.Size(e.size))
	if e.serverLeaves {
		cfg.Params[paramLeaveEarly] = "1"
	}
	cfg.Access = e.access()
}

// Memory returns the bytes of the region, of the text or the memory to READ into, and of the messages.
func (e *endpoint) Memory() int64 { return 2*int64(e.size) + 3*messageRoom }

// access returns the one right that the peer gets, WRITE or READ. Both the queue pair and the
// region grant it.
func (e *endpoint) access() verbs.Access {
	if e.reads {
		return verbs.AccessRemoteRead
	}
	return verbs.AccessRemoteWrite
}

// Prepare posts the receives for MSG_MR and for MSG_DONE. A receive that is posted only after
// MSG_MR has come may be too late for a fast peer.
func (e *endpoint) Prepare(c *rc.Conn) (err error) {
	if e.region, err = c.AllocMR("for the peer", e.size, verbs.AccessLocalWrite|e.access()); err != nil {
		return err
	}
	if e.reads {
		e.own, err = c.AllocMR("to READ into", e.size, verbs.AccessLocalWrite)
	} else {
		e.own, err = c.AllocMR("to WRITE from", max(len(e.text), 1), 0)
	}
	if err != nil {
		return err
	}
	if e.reads {
		copy(e.region.Bytes(), e.text)
	} else {
		copy(e.own.Bytes(), e.text)
	}
	if e.slots, err = c.AllocMR("for messages", 3*messageRoom, verbs.AccessLocalWrite); err != nil {
		return err
	}
	return e.PostRecv(c.QP(),
		verbs.RecvWR{ID: idRecvMR, SGL: []verbs.SGE{e.slots.SGE(slotOf(idRecvMR), messageRoom)}},
		verbs.RecvWR{ID: idRecvDone, SGL: []verbs.SGE{e.slots.SGE(slotOf(idRecvDone), messageRoom)}})
}

// slotOf returns the offset of a receive's slot; slot 0 is for sending. One slot is enough for
// sending, because MSG_DONE is written only after MSG_MR has been acknowledged.
func slotOf(id uint64) int { return int(id) * messageRoom }

func (e *endpoint) Run(ctx context.Context, c *rc.Conn) error {
	event.StatesBegin.Log(e.Logger, fmt.Sprintf("send state %v, receive state %v", e.states.send, e.states.recv))
	next, stop := e.Completions(ctx, c, 2)
	defer stop()
	if done, err := e.act(ctx, c, e.states.begin()); done || err != nil {
		return err
	}
	for {
		wc, err := next()
		if err != nil {
			return err
		}
		h, err := e.identify(&wc)
		if err != nil {
			return err
		}
		todo, err := e.move(h)
		if err != nil {
			return err
		}
		if done, err := e.act(ctx, c, todo); done || err != nil {
			return err
		}
		if e.serverLeaves && e.states.send == ssDoneSent {
			return e.awaitLeave(ctx, c, next)
		}
	}
}

// identify returns the meaning of a completion, and reads the message of a receive.
func (e *endpoint) identify(wc *verbs.WC) (happening, error) {
	switch wc.ID {
	case idSendMR:
		return sentMR, nil
	case idSendDone:
		return sentDone, nil
	case idRDMA:
		if e.reads {
			return didRDMA, e.checkRead()
		}
		return didRDMA, nil
	case idRecvMR, idRecvDone:
		if wc.Opcode != verbs.WCRecv || wc.ByteLen > messageRoom { // the ByteLen of a WRITE_WITH_IMM counts bytes written to a region
			return 0, errors.Errorf("the completion is %v of %d bytes, expected a SEND of %d bytes; try: a peer of this program's version", wc.Opcode, wc.ByteLen, messageSize)
		}
		return e.received(e.slots.Bytes()[slotOf(wc.ID):][:wc.ByteLen])
	}
	return 0, errors.Errorf("the completion of a work request %d, which was not posted", wc.ID)
}

// received reads a message, and compares what it reports with this end's memory.
func (e *endpoint) received(data []byte) (happening, error) {
	m, err := readMessage(data)
	if err != nil {
		return 0, err
	}
	e.logMessage("received", m)
	if m.Type == msgMR {
		if e.states.recv == rsInit { // otherwise the states report an error
			e.peer = m
		}
		return gotMR, nil
	}
	if e.states.recv == rsMRRecv {
		err = e.checkDone(m.Text)
	}
	return gotDone, err
}

// checkDone checks the peer's report of what it has written or read.
func (e *endpoint) checkDone(d digest) error {
	if e.reads {
		if offered := digestOf([]byte(e.text)); d != offered {
			return errors.Errorf("the peer READ %v, but %v were there; try: a peer of this program's version, and dmesg for errors of the device", d, offered)
		}
		return nil
	}
	if d.Bytes > uint64(e.size) {
		return errors.Errorf("the peer reports a WRITE of %d bytes into a region of %d; try: a peer of this program's version", d.Bytes, e.size)
	}
	e.LogMemory("the region", e.region.Bytes()[:d.Bytes])
	text := bytes.Clone(e.region.Bytes()[:d.Bytes]) // the peer cannot write to it
	return e.arrived(text, d, "the peer wrote into this end's region")
}

// checkRead compares the text that was READ with the peer's description of it.
func (e *endpoint) checkRead() error {
	text := e.own.Bytes()[:e.peer.Text.Bytes]
	e.LogMemory("read", text)
	return e.arrived(text, e.peer.Text, "read from the peer's region")
}

func (e *endpoint) arrived(text []byte, want digest, how string) error {
	if got := digestOf(text); got != want {
		return errors.Errorf("%s: %v, but the peer reports %v; try: dmesg for errors of the device, and a capture of both ends", how, got, want)
	}
	e.LogText(&event.MessageReceived, how, kit.Beginning(text), len(text))
	return nil
}

// move moves the machine that h belongs to, and logs the move.
func (e *endpoint) move(h happening) ([]action, error) {
	before := e.states
	todo, err := e.states.on(h)
	if err != nil {
		return nil, err
	}
	machine, from, to := "send", fmt.Stringer(before.send), fmt.Stringer(e.states.send)
	if before.recv != e.states.recv {
		machine, from, to = "receive", before.recv, e.states.recv
	}
	attrs := []slog.Attr{slog.String("machine", machine), slog.String("from", from.String()), slog.String("to", to.String()),
		slog.String("because", h.String())}
	if len(todo) > 0 {
		names := make([]string, len(todo))
		for i, a := range todo {
			names[i] = a.String()
		}
		attrs = append(attrs, slog.String("so", strings.Join(names, ", ")))
	}
	event.StateChanged.Log(e.Logger, fmt.Sprintf("%s state %v→%v", machine, from, to), attrs...)
	return todo, nil
}

// act does the actions. It returns true when the job is done.
func (e *endpoint) act(ctx context.Context, c *rc.Conn, todo []action) (done bool, err error) {
	for _, a := range todo {
		switch a {
		case sendMR:
			m := message{Type: msgMR, Addr: e.region.Addr(), RKey: e.region.RKey(), Length: uint64(e.size)}
			if e.reads {
				m.Text = digestOf([]byte(e.text))
				e.LogText(&event.MessageSent, "this end's region, for the peer to READ, holds", e.text, len(e.text))
			}
			err = e.send(c, idSendMR, m)
		case doRDMA:
			err = e.rdma(c)
		case sendDone:
			m := message{Type: msgDone, Text: digestOf([]byte(e.text))}
			if e.reads {
				m.Text = e.peer.Text // checkRead has compared it with the text that was READ
			}
			err = e.send(c, idSendDone, m)
		case release:
			if e.reads {
				clear(e.region.Bytes())
				event.RegionFree.Log(e.Logger, "the peer has READ the region, so it may change: this end clears it")
			}
		case finish:
			if e.serverLeaves {
				err = errors.New("MSG_DONE arrived, but the server should have left before it; try: a server of this program's version")
			}
			return true, err
		case leave:
			return true, e.leaveEarly(ctx, c)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func (e *endpoint) send(c *rc.Conn, id uint64, m message) error {
	n := copy(e.slots.Bytes(), m.appendTo(nil))
	e.logMessage("send", m)
	return e.PostSend(c.QP(), verbs.SendWR{ID: id, Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: kit.Gather(e.slots, n)})
}

func (e *endpoint) logMessage(what string, m message) {
	var attrs []slog.Attr
	if m.Type == msgMR {
		attrs = append(attrs, slog.String("addr", fmt.Sprintf("%#x", m.Addr)), slog.String("rkey", fmt.Sprintf("%#x", m.RKey)),
			slog.Uint64("length", m.Length))
	}
	if m.Type == msgDone || e.reads {
		attrs = append(attrs, slog.Uint64("text_bytes", m.Text.Bytes), slog.String("text_crc32c", fmt.Sprintf("%#08x", m.Text.CRC)))
	}
	event.ExchangeMessage.Log(e.Logger, what+" "+m.Type.String(), attrs...)
}

// rdma WRITEs this end's text, or READs the peer's.
func (e *endpoint) rdma(c *rc.Conn) error {
	wr := verbs.SendWR{ID: idRDMA, Flags: verbs.SendSignaled, RemoteAddr: e.peer.Addr, RKey: e.peer.RKey}
	if e.reads {
		if e.peer.Text.Bytes > uint64(e.size) {
			return errors.Errorf("the peer's text has %d bytes, but this end can READ at most %d; try: a peer of this program's version", e.peer.Text.Bytes, e.size)
		}
		wr.Opcode, wr.SGL = verbs.OpRDMARead, kit.Gather(e.own, int(e.peer.Text.Bytes))
		return e.PostSend(c.QP(), wr)
	}
	if uint64(len(e.text)) > e.peer.Length {
		return errors.Errorf("the text has %d bytes, but the peer's region %d; try: a peer of this program's version", len(e.text), e.peer.Length)
	}
	wr.Opcode, wr.SGL = verbs.OpRDMAWrite, kit.Gather(e.own, len(e.text))
	if err := e.PostSend(c.QP(), wr); err != nil {
		return err
	}
	e.LogText(&event.MessageSent, "writing into the peer's region", e.text, len(e.text))
	return nil
}
