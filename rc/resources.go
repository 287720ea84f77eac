// The objects that queue pairs need: a Conn's own, or a Server's for all its Conns.

package rc

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/internal/sync/closing"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// owned is an object that a Conn or a Server frees.
type owned struct {
	verb, name string
	number     int          // in the order of making; the newest is freed first
	rights     verbs.Access // of a region; see register
}

// resources has a device, the objects made on it, and which of these to free.
type resources struct {
	cfg    Config
	conns  int // Conns that share the completion queues
	events events

	dev     *verbs.Device
	pd      *verbs.PD
	channel *verbs.CompChannel
	sendCQ  *verbs.CQ
	recvCQ  *verbs.CQ
	srq     *verbs.SRQ // nil: each queue pair has a receive queue of its own

	owning sync.Mutex
	made   int // objects so far
	owned  map[io.Closer]*owned
}

func (r *resources) openDevice() error {
	r.dev = r.cfg.Device
	if r.dev != nil {
		return nil
	}
	dev, err := verbs.Open("")
	if err != nil {
		return err
	}
	r.dev = dev
	r.own("ibv_close_device", "device "+dev.Name(), dev)
	r.events.made("ibv_open_device", "open device "+dev.Info().String())
	return nil
}

func (r *resources) makePD() (err error) {
	if r.pd, err = r.dev.AllocPD(); err != nil {
		return err
	}
	r.own("ibv_dealloc_pd", "protection domain", r.pd)
	r.events.made("ibv_alloc_pd", "make protection domain")
	return nil
}

// makeQueues makes the completion queues and, if there is one, the shared receive queue.
func (r *resources) makeQueues(maxCQE int) (err error) {
	if r.channel, err = r.dev.CreateCompChannel(); err != nil {
		return err
	}
	r.own("ibv_destroy_comp_channel", "completion channel", r.channel)
	r.events.made("ibv_create_comp_channel", "make completion channel")

	if r.cfg.OneCQ {
		if r.sendCQ, err = r.makeCQ("send and receive", r.cfg.sendDepth(r.conns)+r.cfg.recvDepth(r.conns), maxCQE, verbs.AnyVector); err != nil {
			return err
		}
		r.recvCQ = r.sendCQ
		return r.makeSRQ()
	}
	if r.sendCQ, err = r.makeCQ("send", r.cfg.sendDepth(r.conns), maxCQE, verbs.AnyVector); err != nil {
		return err
	}
	if r.recvCQ, err = r.makeCQ("receive", r.cfg.recvDepth(r.conns), maxCQE, r.sendCQ.Vector()); err != nil {
		return err
	}
	return r.makeSRQ()
}

// dispatchers returns a dispatcher for each completion queue: one twice if both are one.
func (r *resources) dispatchers() (sends, recvs *dispatch.Dispatcher) {
	sends = dispatch.New(r.sendCQ)
	if r.recvCQ == r.sendCQ {
		return sends, sends
	}
	return sends, dispatch.New(r.recvCQ)
}

// makeCQ makes a completion queue and logs it. The queue is twice as deep as the work queues, if
// the device allows that: places in the work queues can be used again before the completions of
// their last requests are polled.
func (r *resources) makeCQ(what string, depth, most, vector int) (*verbs.CQ, error) {
	cq, err := r.dev.CreateCQ(verbs.CQInit{Depth: min(2*depth, max(depth, most)), Channel: r.channel, Vector: vector})
	if err != nil {
		return nil, err
	}
	r.own("ibv_destroy_cq", what+" completion queue", cq)
	r.events.made("ibv_create_cq", "make "+what+" completion queue", slog.Int("depth", cq.Depth()))
	return cq, nil
}

func (r *resources) makeSRQ() (err error) {
	if r.cfg.SRQ == nil {
		return nil
	}
	if r.srq, err = r.pd.CreateSRQ(*r.cfg.SRQ); err != nil {
		return err
	}
	r.own("ibv_destroy_srq", "shared receive queue", r.srq)
	r.events.made("ibv_create_srq", "make shared receive queue", slog.String("init", fmt.Sprintf("%+v", *r.cfg.SRQ)))
	return nil
}

// register makes a memory region of the owner and logs it. bound: only windows open it to a peer.
func (r *resources) register(name string, access verbs.Access, bound bool, reg func(verbs.Access) (*verbs.MR, error)) (*verbs.MR, error) {
	rights := access & remoteRights // that Share gives the peer
	if bound {
		access = boundAccess(access)
	}
	mr, err := reg(access)
	if err != nil {
		return nil, err
	}
	closing.OnClose(mr, func() { r.forget(mr) }) // the program may close it; free may too, when it is owned
	r.own("ibv_dereg_mr", "memory region "+name, mr).rights = rights
	r.events.registered("register memory region "+name,
		r.events.secret("addr", mr.Addr()), slog.Int("length", mr.Len()),
		r.events.secret("lkey", uint64(mr.LKey())), r.events.secret("rkey", uint64(mr.RKey())),
		slog.String("access", mr.Access().Name()))
	return mr, nil
}

// rightsOf returns the remote rights that the program registered a region with.
func (r *resources) rightsOf(mr *verbs.MR) (rights verbs.Access, known bool) {
	r.owning.Lock()
	defer r.owning.Unlock()
	if o := r.owned[mr]; o != nil {
		return o.rights, true
	}
	return 0, false
}

// own adds an object to those that free closes.
func (r *resources) own(verb, name string, object io.Closer) *owned {
	r.owning.Lock()
	defer r.owning.Unlock()
	if r.owned == nil {
		r.owned = make(map[io.Closer]*owned)
	}
	r.made++
	r.owned[object] = &owned{verb: verb, name: name, number: r.made}
	return r.owned[object]
}

// forget removes an object that is closed, and logs that.
func (r *resources) forget(object io.Closer) {
	r.owning.Lock()
	o, known := r.owned[object]
	delete(r.owned, object)
	r.owning.Unlock()
	if known {
		r.events.freed(o.verb, o.name)
	}
}

// free closes the objects, the newest first. Objects that refuse stay.
func (r *resources) free() (errs []error) {
	r.owning.Lock()
	newest := slices.SortedFunc(maps.Keys(r.owned), func(a, b io.Closer) int { return r.owned[b].number - r.owned[a].number })
	r.owning.Unlock()
	for _, object := range newest {
		if err := object.Close(); err != nil {
			errs = append(errs, err)
			continue
		}
		r.forget(object)
	}
	return errs
}

// concerns reports whether an event is about the device, the port, one of the objects, or a queue
// pair of owns.
func (r *resources) concerns(e verbs.AsyncEvent, owns func(qpn uint32) bool) bool {
	switch e.Type {
	case verbs.EventCQErr:
		return r.sendCQ.Is(e) || r.recvCQ.Is(e)
	case verbs.EventSRQErr, verbs.EventSRQLimitReached:
		return r.srq != nil && r.srq.Is(e)
	case verbs.EventWQFatal:
		return false // the objects have no work queue
	}
	switch {
	case e.QPN != 0:
		return owns(e.QPN)
	case e.Port != 0:
		return e.Port == r.cfg.Port
	}
	return true
}
