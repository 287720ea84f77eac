// The jobs of --wire pingpong: libibverbs' example programs ibv_rc_pingpong,
// ibv_uc_pingpong, ibv_ud_pingpong and ibv_srq_pingpong, either end of which may be
// this program. What they tell each other over TCP is in wire_pingpong_exchange.go,
// what they do then in wire_pingpong_run.go.
//
// The messages' size, their number and the path MTU are not told: who has another
// than the peer finds out by what follows, and wire_pingpong_error.go says it.

package lab

import (
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// pingpongKind is one of the four programs.
type pingpongKind struct {
	name, about string // the job's
	program     string // in C
	qp          verbs.QPType
	srq         bool
	usual       Size // of a message, if it is not chosen
	fill        byte // what a message consists of
}

// pingpongKinds are all of them.
var pingpongKinds = []pingpongKind{
	{name: "rc-pingpong", program: "ibv_rc_pingpong", about: "like ibv_rc_pingpong: SENDs back and forth over a reliable connection", qp: verbs.RC, usual: 4096, fill: 0x7b},
	{name: "uc-pingpong", program: "ibv_uc_pingpong", about: "like ibv_uc_pingpong: the same over an unreliable connection", qp: verbs.UC, usual: 4096, fill: 0x7b},
	{name: "ud-pingpong", program: "ibv_ud_pingpong", about: "like ibv_ud_pingpong: the same by datagrams", qp: verbs.UD, usual: 1024, fill: 0x7b},
	{name: "srq-pingpong", program: "ibv_srq_pingpong", about: "like ibv_srq_pingpong: the same over several reliable connections that share their receives", qp: verbs.RC, srq: true, usual: 4096},
}

var pingpongJobs = []job{pingpongKinds[0].job(), pingpongKinds[1].job(), pingpongKinds[2].job(), pingpongKinds[3].job()}

// job makes the program's counterpart. Its flags have the C program's letters.
func (k pingpongKind) job() job {
	j := job{
		name: k.name, about: k.about, size: k.usual,
		flags:    []string{"size", "iters", "rx-depth", "events", "chk"},
		letters:  map[string]string{"size": "s", "iters": "n", "rx-depth": "r", "events": "e", "chk": "c", "mtu": "m", "ib-port": "i"},
		defaults: map[string]string{"rx-depth": "500"},
		client:   func(o ClientOptions) (half, error) { return k.end(&o.Options, &o.JobOptions, true) },
		server:   func(v visit) (half, error) { return k.end(&v.Options, &v.JobOptions, false) },
	}
	if k.srq {
		j.flags = append(j.flags, "qps")
		j.letters["qps"], j.defaults["qps"] = "q", "16"
	}
	return j
}

// end makes one end.
func (k pingpongKind) end(o *Options, j *JobOptions, client bool) (half, error) {
	p := pingpongPlan{
		pingpongKind: k, size: int(j.Size), iters: j.Bench.Iters, mtu: o.MTU,
		qps: 1, rxDepth: j.Bench.RXDepth, events: j.Bench.Events, pages: j.Check,
	}
	if k.srq {
		p.qps = j.Bulk.QPs
	}
	if k.qp != verbs.UD && p.mtu == 0 {
		p.mtu = pingpongMTU
	}
	return &pingpongEnd{narrator: narrator{o.Logger}, pingpongPlan: p, client: client}, p.check()
}

const (
	pingpongMTU  = 1024 // theirs, if it is not chosen
	pingpongQKey = 0x11111111

	// pingpongSpin is how long a message is polled for without --events. The C
	// programs go on for ever; but where CPUs are few, who sends it needs one.
	pingpongSpin = 200 * time.Microsecond
)

// pingpongPlan is what both ends must be given alike, but for rxDepth and events.
type pingpongPlan struct {
	pingpongKind
	size    int // bytes of a message
	iters   int // messages each way, of all queue pairs together
	mtu     int // bytes; 0, for datagrams, is the port's
	qps     int
	rxDepth int  // receives posted at a time
	events  bool // sleep until there are completions, in place of polling
	pages   bool // checked: the first byte of each is 0 when the server has it
}

// check refuses what cannot be.
func (p *pingpongPlan) check() error {
	switch {
	case p.size < 1:
		return Usagef("a message of %d bytes cannot be had; try: --size 1 or more", p.size)
	case p.iters < 1:
		return Usagef("%d messages cannot be sent; try: --iters 1 or more", p.iters)
	case p.qps < 1 || p.qps > oob.MaxPingpongQPs:
		return Usagef("%s has no %d queue pairs; try: --qps from 1 to %d", p.program, p.qps, oob.MaxPingpongQPs)
	case p.rxDepth < p.qps:
		return Usagef("%d receives are too few for %d queue pairs; try: --rx-depth %d or more", p.rxDepth, p.qps, p.qps)
	}
	return nil
}

// pingpongEnd is either end.
type pingpongEnd struct {
	narrator
	pingpongPlan
	client bool
	mr     *verbs.MR
	recvs  []verbs.RecvWR // rxDepth of them, all alike
	queued int            // of them, those that wait for a message
	sent   int            // messages, of all queue pairs
	got    int
}

// header is what a datagram's receive begins with.
func (p *pingpongPlan) header() int {
	if p.qp == verbs.UD {
		return verbs.GRHLen
	}
	return 0
}

// configure asks for what the C programs ask for.
func (e *pingpongEnd) configure(cfg *rc.Config) {
	cfg.Exchange = e.exchange
	cfg.Type, cfg.QPs = e.qp, e.qps
	cfg.Cap = verbs.QPCap{MaxSendWR: 1, MaxRecvWR: uint32(e.rxDepth)}
	if e.srq {
		cfg.SRQ = &verbs.SRQInit{MaxWR: uint32(e.rxDepth), MaxSGE: 1}
		cfg.Cap.MaxRecvWR = 1
	}
	cfg.OneCQ = true
	if !e.events {
		cfg.Spin = pingpongSpin
	}
	cfg.Access, cfg.MaxReads, cfg.QKey = verbs.AccessLocalWrite, 1, pingpongQKey
	cfg.MTU = e.mtu
}

// prepare registers the one buffer that all messages are sent from and received in,
// and posts the receives.
func (e *pingpongEnd) prepare(c *rc.Conn) (err error) {
	if most := c.Local().MTU; e.qp == verbs.UD && e.size > most {
		return fmt.Errorf("a datagram of %d bytes is more than the %d of a packet; try: --size %d or less, at both ends", e.size, most, most)
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
	tell(e.log, "fast", "wr.posted", "ibv_post_recv", fmt.Sprintf("post %d RECVs", e.queued), slog.Uint64("wr_id", idRecv), slog.Int("bytes", len(buf)))
	return nil
}

// postReceives fills up the receive queue.
func (e *pingpongEnd) postReceives(c *rc.Conn) error {
	more := e.recvs[e.queued:]
	e.queued = e.rxDepth
	if e.srq {
		return c.SRQ().PostRecv(more)
	}
	return c.QP().PostRecv(more)
}

// pageStarts are the places of the first byte of each page of a message.
func (e *pingpongEnd) pageStarts() (places []int) {
	for at := 0; at < e.size; at += os.Getpagesize() {
		places = append(places, e.header()+at)
	}
	return places
}
