// Flows, and what is measured of them.

package simulate

import (
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// FlowConfig describes a flow.
type FlowConfig struct {
	Type    verbs.QPType // 0: RC
	Op      verbs.Opcode // OpRDMAWrite or OpRDMARead; OpSend with UC and UD
	Size    int          // bytes of a message, at most 1 MiB
	Depth   int          // messages in flight
	MTU     qpstate.MTU
	Timeout uint8 // 0: 14
}

// Flow is a queue pair that keeps messages in flight.
type Flow struct {
	cfg  FlowConfig
	from *Host
	qp   *transport.QP
	wr   []verbs.SendWR
	err  error

	to   *Host // UC and UD: the host that counts what arrives
	peer *transport.QP
	recv []verbs.RecvWR

	bytes float64 // completed; with UC and UD: by the receiver
	rates series  // the same, per period
}

// period is the resolution of what is measured.
const period = time.Millisecond

// series is a value per period.
type series []float64

func (s *series) at(now time.Duration) *float64 {
	i := int(now / period)
	for len(*s) <= i {
		*s = append(*s, 0)
	}
	return &(*s)[i]
}

func (s *series) most(now time.Duration, v float64) {
	p := s.at(now)
	*p = max(*p, v)
}

// Flow connects two hosts by a queue pair each, and starts to move messages: from the first to the
// second host, or the other way with OpRDMARead.
func (n *Network) Flow(from, to *Host, cfg FlowConfig) *Flow {
	if cfg.Timeout == 0 {
		cfg.Timeout = 14
	}
	if cfg.Type == 0 {
		cfg.Type = verbs.RC
	}
	a, b := from.qp(cfg), to.qp(cfg)
	connect(a, to, b.QPN(), cfg)
	connect(b, from, a.QPN(), cfg)
	f := &Flow{cfg: cfg, from: from, qp: a}
	if cfg.Type != verbs.RC {
		f.receive(to, b)
	}
	f.wr = []verbs.SendWR{{Opcode: cfg.Op, Flags: verbs.SendSignaled, RemoteAddr: to.mr.Addr(), RKey: to.mr.RKey(),
		SGL: []verbs.SGE{{Addr: from.mr.Addr(), Length: uint32(cfg.Size), LKey: from.mr.LKey()}}}}
	if cfg.Type == verbs.UD {
		f.wr[0].AH, f.wr[0].RemoteQPN, f.wr[0].RemoteQKey = from.handle(to), b.QPN(), queueKey
	}
	from.flows[a.QPN()] = f
	for range cfg.Depth {
		f.post()
	}
	return f
}

func (f *Flow) post() {
	if _, err := f.qp.PostSend(f.wr); err != nil && f.err == nil {
		f.err = err
	}
}

// receives is the number of receives of a flow over UC or UD, and queueKey is its Q_Key.
const receives, queueKey = 256, 0x1234

// receive lets the receiver of UC or UD count the messages that arrive.
func (f *Flow) receive(to *Host, peer *transport.QP) {
	const grh = 40
	f.to, f.peer = to, peer
	f.recv = []verbs.RecvWR{{SGL: []verbs.SGE{{Addr: to.mr.Addr(), Length: uint32(f.cfg.Size + grh), LKey: to.mr.LKey()}}}}
	to.flows[peer.QPN()] = f
	for range receives {
		f.postRecv()
	}
}

func (f *Flow) postRecv() {
	if _, err := f.peer.PostRecv(f.recv); err != nil && f.err == nil {
		f.err = err
	}
}

// rdAtomic is the number of READ requests in flight per queue pair.
const rdAtomic = 16

func (h *Host) qp(cfg FlowConfig) *transport.QP {
	qp, err := h.pd.CreateQP(transport.QPInit{Type: cfg.Type, SendCQ: h.cq, RecvCQ: h.cq,
		Cap: verbs.QPCap{MaxSendWR: uint32(cfg.Depth), MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		panic(err)
	}
	return qp
}

// connect moves a queue pair to RTS.
func connect(qp *transport.QP, peer *Host, number uint32, cfg FlowConfig) {
	attr := qpstate.Attr{PortNum: 1, Access: access, PathMTU: cfg.MTU, DestQPN: number, MaxDestRdAtomic: rdAtomic, MaxRdAtomic: rdAtomic,
		MinRNRTimer: 12, Timeout: cfg.Timeout, RetryCnt: 7, RNRRetry: 7, QKey: queueKey}
	attr.AH = qpstate.AHAttr{IsGlobal: true, PortNum: 1}
	attr.AH.GRH.DGID = qpstate.GIDFrom(peer.addr)
	from := qpstate.Reset
	for _, to := range []qpstate.State{qpstate.Init, qpstate.RTR, qpstate.RTS} {
		row, _ := qpstate.Lookup(cfg.Type, from, to)
		attr.State, from = to, to
		if err := qp.Modify(&attr, row.Required|qpstate.MaskState); err != nil {
			panic(err)
		}
	}
}

// poll replaces each completed message by another one.
func (h *Host) poll() {
	var wcs [32]verbs.WC
	for k := h.cq.Poll(wcs[:]); k > 0; k = h.cq.Poll(wcs[:]) {
		for i := range wcs[:k] {
			f := h.flows[wcs[i].QPN]
			if err := wcs[i].Status; err != verbs.WCSuccess {
				if f.err == nil {
					f.err = errors.Errorf("at %v: %v", h.net.now, err)
				}
				continue
			}
			arrived := wcs[i].Opcode == verbs.WCRecv
			if arrived || f.to == nil {
				f.bytes += float64(f.cfg.Size)
				*f.rates.at(h.net.now) += float64(f.cfg.Size)
			}
			if arrived {
				f.postRecv()
			} else {
				f.post()
			}
		}
	}
}

// Sum returns a counter's sum over all hosts.
func (n *Network) Sum(c transport.Counter) (sum uint64) {
	for _, h := range n.hosts {
		sum += h.engine.Counter(c)
	}
	return sum
}

// line returns the bytes of payload per second that a link carries at most.
func (cfg *Config) line(mtu qpstate.MTU) float64 {
	const headers = 12 + 4 // BTH and ICRC
	return cfg.Rate / 8 * float64(mtu.Bytes()) / float64(mtu.Bytes()+headers+frameOverhead)
}

// jain returns Jain's index of fairness: 1 if all values are equal, 1/n if all but one are 0.
func jain(values []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, v := range values {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(values)) * squares)
}
