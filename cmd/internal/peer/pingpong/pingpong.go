// Package pingpong is libibverbs' example programs ibv_rc_pingpong,
// ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong, either end of which may be
// this program. What they exchange over TCP is in exchange.go, what
// they do then in run.go.
//
// The size of the messages, their number and the path MTU are not exchanged. If the ends
// differ, the job fails later, and explain.go names the likely cause.
package pingpong

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// kind is one of the four programs.
type kind struct {
	name, about string // the job's
	program     string // in C
	qp          verbs.QPType
	srq         bool
	usual       kit.Size // default size of a message
	fill        byte     // the byte that fills a message
}

// kinds are all of them.
var kinds = []kind{
	{name: "rc-pingpong", program: "ibv_rc_pingpong", about: "like ibv_rc_pingpong: SENDs back and forth over a reliable connection", qp: verbs.RC, usual: 4096, fill: 0x7b},
	{name: "uc-pingpong", program: "ibv_uc_pingpong", about: "like ibv_uc_pingpong: the same over an unreliable connection", qp: verbs.UC, usual: 4096, fill: 0x7b},
	{name: "ud-pingpong", program: "ibv_ud_pingpong", about: "like ibv_ud_pingpong: the same by datagrams", qp: verbs.UD, usual: 1024, fill: 0x7b},
	{name: "srq-pingpong", program: "ibv_srq_pingpong", about: "like ibv_srq_pingpong: the same over several reliable connections that share their receives", qp: verbs.RC, srq: true, usual: 4096},
}

// Peer is the programs, for the list in package run.
var Peer = kit.Peer{
	Name:  "pingpong",
	About: "rdma-core's examples (Debian: ibverbs-utils): ibv_rc_pingpong and others",
	Port:  oob.DefaultPort,
	Jobs:  kit.List{kinds[0].newType(), kinds[1].newType(), kinds[2].newType(), kinds[3].newType()},
}

// newType makes the program's counterpart. Its flags have the C program's letters.
func (k kind) newType() kit.Type {
	return kit.Type{
		Name: k.name, About: k.about,
		Client:  func(f *pflag.FlagSet) kit.Side { return k.newSide(f, true) },
		Server:  func(f *pflag.FlagSet) kit.Side { return k.newSide(f, false) },
		Letters: map[string]string{"mtu": "m", "ib-port": "i"},
	}
}

// newSide defines the flags, which are the same at both ends.
func (k kind) newSide(f *pflag.FlagSet, client bool) kit.Side {
	flags := plan{kind: k, qps: 1}
	size := k.usual
	f.VarP(&size, "size", "s", "bytes of each message, such as 4096, 64K, 1M")
	iters := "messages each way"
	if k.srq {
		iters += ", of all queue pairs together"
		f.IntVarP(&flags.qps, "qps", "q", 16, fmt.Sprintf("queue pairs: 1 to %d", maxQPs))
	}
	f.IntVarP(&flags.iters, "iters", "n", 1000, iters)
	f.IntVarP(&flags.rxDepth, "rx-depth", "r", 500, "receives posted at a time")
	f.BoolVarP(&flags.events, "events", "e", false, "sleep until there are completions (default: poll)")
	f.BoolVarP(&flags.pages, "chk", "c", false, "check the first byte of each page that the server received; use it at both ends")
	return kit.SideFunc(func(s kit.Session) (kit.Endpoint, error) {
		if err := kit.CheckBuffer(size); err != nil {
			return nil, err
		}
		p := flags
		p.size, p.mtu = int(size), s.MTU
		if k.qp != verbs.UD && p.mtu == 0 {
			p.mtu = defaultMTU
		}
		return &endpoint{Tracer: kit.Tracer{Logger: s.Logger}, plan: p, client: client}, p.check()
	})
}

const (
	defaultMTU  = 1024 // the default of the C programs
	defaultQKey = 0x11111111

	// spin is how long this end polls for a message without --events. The C programs poll
	// forever. On hosts with few CPUs, the sender needs one.
	spin = 200 * time.Microsecond
)

// plan is what both ends must have in common, except for rxDepth and events.
type plan struct {
	kind
	size    int // bytes of a message
	iters   int // messages each way, of all queue pairs together
	mtu     int // in bytes; 0, for datagrams, means the port's
	qps     int
	rxDepth int  // receives posted at a time
	events  bool // sleep until there are completions, in place of polling
	pages   bool // check that the first byte of each page is 0 when the server has received it
}

// check returns an error for impossible values.
func (p *plan) check() error {
	switch {
	case p.size < 1:
		return usage.Errorf("a message of %d bytes is not possible; try: --size 1 or more", p.size)
	case p.iters < 1:
		return usage.Errorf("%d messages cannot be sent; try: --iters 1 or more", p.iters)
	case p.qps < 1 || p.qps > maxQPs:
		return usage.Errorf("%s cannot have %d queue pairs; try: --qps from 1 to %d", p.program, p.qps, maxQPs)
	case p.rxDepth < p.qps:
		return usage.Errorf("%d receives are too few for %d queue pairs; try: --rx-depth %d or more", p.rxDepth, p.qps, p.qps)
	}
	return nil
}

// endpoint is either end.
type endpoint struct {
	kit.Tracer
	plan
	client bool
	mr     *verbs.MR
	recvs  []verbs.RecvWR // rxDepth equal receives
	queued int            // number of posted receives without a message
	sent   int            // messages sent on all queue pairs
	got    int
}

// header returns the length of the header in a datagram's receive.
func (p *plan) header() int {
	if p.qp == verbs.UD {
		return verbs.GRHLen
	}
	return 0
}

// Configure asks for the same as the C programs.
func (e *endpoint) Configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.Type, cfg.QPs = e.qp, e.qps
	cfg.Cap.MaxSendWR = 1
	if e.srq {
		cfg.SRQ = &verbs.SRQInit{MaxWR: uint32(e.rxDepth), MaxSGE: 1}
	} else {
		cfg.Cap.MaxRecvWR = uint32(e.rxDepth)
	}
	cfg.OneCQ = true
	if !e.events {
		cfg.Spin = spin
	}
	switch e.qp {
	case verbs.RC:
		cfg.MaxReads = 1
	case verbs.UD:
		cfg.QKey = defaultQKey
	}
	cfg.Access = verbs.AccessLocalWrite
	cfg.MTU = e.mtu
}

// Memory returns the bytes of the buffer and of the list of receives.
func (e *endpoint) Memory() int64 { return int64(e.header()) + int64(e.size) + int64(e.rxDepth)*32 }

// Prepare registers the one buffer for all messages, sent and received, and posts the receives.
func (e *endpoint) Prepare(c *rc.Conn) (err error) {
	if most := c.LocalEndpoints()[0].MTU; e.qp == verbs.UD && e.size > most {
		return errors.Errorf("a datagram of %d bytes does not fit into a packet of %d; try: --size %d or less at both ends", e.size, most, most)
	}
	if e.mr, err = c.AllocMR("of all messages", e.header()+e.size, verbs.AccessLocalWrite); err != nil {
		return err
	}
	buf := e.mr.Bytes()
	for i := range buf {
		buf[i] = e.fill
	}
	recv := verbs.RecvWR{ID: idRecv, SGL: []verbs.SGE{e.mr.SGE(0, len(buf))}}
	e.recvs = make([]verbs.RecvWR, e.rxDepth)
	for i := range e.recvs {
		e.recvs[i] = recv
	}
	if err := e.postReceives(c); err != nil {
		return err
	}
	event.RecvPosted.Log(e.Logger, fmt.Sprintf("post %d RECVs", e.queued), slog.Uint64("wr_id", idRecv), slog.Int("bytes", len(buf)))
	return nil
}

// postReceives fills up the receive queue.
func (e *endpoint) postReceives(c *rc.Conn) error {
	more := e.recvs[e.queued:]
	e.queued = e.rxDepth
	if e.srq {
		return c.QP().SRQ().PostRecv(more)
	}
	return c.QP().PostRecv(more)
}

// pageStarts returns the offsets of the first byte of each page of a message.
func (e *endpoint) pageStarts() (places []int) {
	for at := 0; at < e.size; at += os.Getpagesize() {
		places = append(places, e.header()+at)
	}
	return places
}
