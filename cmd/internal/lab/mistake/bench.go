// The bench: the two ends of a run, and how a run begins and ends.

package mistake

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	regionSize = 4096
	queueDepth = 8
	port       = 1
	clientPSN  = 0x100 // the client's SQ_PSN
	serverPSN  = 0x200
	rights     = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
)

// Options are what a run can choose.
type Options struct {
	Device   string // "" is soft0
	GIDIndex *int   // nil: a suitable one

	patience time.Duration // limit of each wait; 0 is 5 s
}

// bench has the two ends of a run.
type bench struct {
	ctx            context.Context
	patience       time.Duration
	client, server *end
	report         *Report
	wire           *wire       // nil on a device whose packets this process does not see
	made           []io.Closer // to be closed, the last first
}

// end is one end: its objects, and the attributes of its queue pair's moves.
type end struct {
	b            *bench
	name         string
	dev          *verbs.Device
	gid          verbs.GIDEntry
	pd           *verbs.PD
	sends, recvs *verbs.CQ
	mr           *verbs.MR // regionSize bytes with every right
	qp           *verbs.QP
	attr         verbs.QPAttr
	saw          []any
	general      *diagnosis.Entry // of the last failure
	events       chan verbs.EventType
}

// stop ends a run: as a panic, so that the code of a mistake has no error handling in it.
type stop struct{ err error }

// unsupported is the error of a device that cannot show a mistake.
type unsupported string

func (u unsupported) Error() string { return "unsupported here, because " + string(u) }

// Run makes the mistake. The error is nil even if the device broke the promise or cannot show
// the mistake: see Report.Broken and Report.Unsupported.
func (m Mistake) Run(ctx context.Context, o Options) (r *Report, err error) {
	o.Device = cmp.Or(o.Device, "soft0")
	r = &Report{Mistake: m, Device: o.Device}
	b := &bench{ctx: ctx, patience: cmp.Or(o.patience, 5*time.Second), report: r}
	defer func() {
		for _, object := range slices.Backward(b.made) {
			if closing := object.Close(); closing != nil && err == nil {
				err = closing
			}
		}
	}()
	defer func() {
		switch s := recover().(type) {
		case nil:
		case stop:
			if err = s.err; errors.As(err, new(unsupported)) {
				r.Unsupported, err = err.Error(), nil
				r.Steps, r.Packets = nil, nil
			}
		default:
			panic(s)
		}
	}()
	b.open(o)
	m.run(b)
	b.judge()
	return r, nil
}

// must ends the run if a call failed that is not the mistake.
func must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// keep is must for a call that makes an object.
func keep[T io.Closer](b *bench, object T, err error) T {
	must(err)
	b.made = append(b.made, object)
	return object
}

func (b *bench) unsupported(because string) { panic(stop{unsupported(because)}) }

// open opens the device for each end and makes their objects. Where a device can be opened
// only once, the ends share it, and the packets are not recorded: each would be seen twice.
func (b *bench) open(o Options) {
	dev, err := verbs.Open(o.Device)
	client := keep(b, dev, err)
	server, err := verbs.Open(o.Device)
	if errors.Is(err, syscall.EADDRINUSE) {
		server = client
	} else {
		keep(b, server, err)
	}
	b.client, b.server = b.end("client", client, o.GIDIndex), b.end("server", server, o.GIDIndex)
	mtu := min(verbs.MTU1024, b.client.activeMTU())
	for _, x := range []struct {
		*end
		peer   *end
		sq, rq uint32
	}{{b.client, b.server, clientPSN, serverPSN}, {b.server, b.client, serverPSN, clientPSN}} {
		// TIMEOUT 19 is 2 s: a busy host must not cause a resend that the mistake does not.
		x.attr = verbs.QPAttr{PortNum: port, Access: rights, PathMTU: mtu, DestQPN: x.peer.qp.QPN(),
			SQPSN: x.sq, RQPSN: x.rq, AH: x.gid.To(x.peer.gid.GID), MaxRdAtomic: 1, MaxDestRdAtomic: 1,
			Timeout: 19, RetryCnt: 2, RNRRetry: 2, MinRNRTimer: 12}
		x.attr.AH.DLID = x.peer.lid()
	}
	if softroce.CanCapture(client) == nil && client != server {
		b.wire = newWire(b)
		stop, err := softroce.Capture(client, b.wire.packet)
		must(err)
		b.made = append(b.made, closer(stop))
	}
	b.step("both", fmt.Sprintf("open %s; PD, CQs, region of %d bytes, RC queue pair in RESET", o.Device, regionSize), "")
}

// closer is a function as an io.Closer.
type closer func() error

func (c closer) Close() error { return c() }

// end makes one end, with its queue pair in RESET.
func (b *bench) end(name string, dev *verbs.Device, index *int) *end {
	e := &end{b: b, name: name, dev: dev}
	table, err := dev.QueryGIDTable()
	must(err)
	e.gid, _, err = verbs.ChooseGID(table, verbs.GIDSelection{Port: port, Index: index})
	must(err)
	pd, err := dev.AllocPD()
	e.pd = keep(b, pd, err)
	channel, err := dev.CreateCompChannel()
	keep(b, channel, err)
	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 2 * queueDepth, Channel: channel})
	e.sends = keep(b, cq, err)
	cq, err = dev.CreateCQ(verbs.CQInit{Depth: 2 * queueDepth, Channel: channel})
	e.recvs = keep(b, cq, err)
	mr, err := e.pd.AllocMR(regionSize, verbs.AccessLocalWrite|rights)
	e.mr = keep(b, mr, err)
	qp, err := e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.sends, RecvCQ: e.recvs,
		Cap: verbs.QPCap{MaxSendWR: queueDepth, MaxRecvWR: queueDepth, MaxSendSGE: 1, MaxRecvSGE: 1}})
	e.qp = keep(b, qp, err)
	e.events = make(chan verbs.EventType, queueDepth)
	cancel := dev.Subscribe(func(event verbs.AsyncEvent) {
		if event.QPN != qp.QPN() {
			return
		}
		select {
		case e.events <- event.Type:
		default: // more than any mistake causes
		}
	})
	b.made = append(b.made, closer(func() error { cancel(); return nil }))
	return e
}

func (e *end) portAttr() verbs.PortAttr {
	p, err := e.dev.QueryPort(port)
	must(err)
	return p
}

func (e *end) activeMTU() verbs.MTU { return e.portAttr().ActiveMTU }
func (e *end) lid() uint16          { return e.portAttr().LID }

// state asks for the state of the queue pair. An error may take it to ERR a moment after the
// completion, so state waits a little for promised.
func (e *end) state(promised verbs.QPState) verbs.QPState {
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		attr, err := e.qp.Query(qpstate.MaskState)
		must(err)
		if attr.State == promised || time.Since(began) > e.b.patience {
			return attr.State
		}
		if e.b.ctx.Err() != nil {
			must(ctxwatch.Err(e.b.ctx))
		}
	}
}

// reportedEvents returns the asynchronous events of the queue pair. An event may come a moment after the completion, so
// reportedEvents waits for as many as were promised.
func (e *end) reportedEvents(promised int) (list []verbs.EventType) {
	late := time.After(e.b.patience)
	for len(list) < promised {
		select {
		case event := <-e.events:
			list = append(list, event)
		case <-late:
			return list
		case <-e.b.ctx.Done():
			must(ctxwatch.Err(e.b.ctx))
		}
	}
	for len(e.events) > 0 { // nobody else receives
		list = append(list, <-e.events)
	}
	return list
}

// step records one call.
func (b *bench) step(end, call, result string) {
	b.report.Steps = append(b.report.Steps, step{end, call, result})
}

// nobody is an address like that of the client's GID, at which no device is.
func (b *bench) nobody() verbs.GID {
	gid := b.client.gid.GID
	if ip := gid.Addr(); ip.IsLoopback() {
		return verbs.GIDFrom(netip.AddrFrom4([4]byte{127, 255, 255, 1}))
	}
	gid[15] ^= 0x55
	return gid
}
