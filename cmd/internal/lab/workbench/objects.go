// The hosts' objects: making and closing them.

package workbench

import (
	"io"
	"iter"
	"slices"
	"strings"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/program"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// host is one of the two hosts.
type host struct {
	s       *Session
	side    simulated.Host
	dev     *verbs.Device
	objects []*object // in the order in which they were made; closed ones stay
	told    []told    // what the peer told about its queue pairs, the newest last
	regions []region  // what the peer told about its regions
	mapped  uint64    // bytes of address space that regions have got
}

// object is an object of a host. One of the pointers is set.
type object struct {
	name    string
	kind    string // "PD", "MR", "CQ", "SRQ", "QP", "AH", "MW"
	parents []string
	made    int // number of the action
	closed  bool
	verb    string // that destroys it
	closer  io.Closer

	pd  *verbs.PD
	mr  *verbs.MR
	cq  *verbs.CQ
	srq *verbs.SRQ
	qp  *verbs.QP
	ah  *verbs.AH
	mw  *verbs.MW

	changed [][2]int     // of an MR: the bytes that the last action has changed
	av      verbs.AHAttr // of an AH

	// Of a QP.
	sigAll  bool
	psn     *uint32                  // what exchange told the peer
	sources map[qpstate.Mask]setting // where each attribute came from
	program qpstate.State            // the state after the last modify_qp
	before  *qpstate.Attr            // the attributes before the last action; nil: it was made by that action
	coded   qpstate.State            // the state that an exported program has seen

	bound *Bind // of an MW: the last bind that was posted

	// Of a CQ.
	events  int // in its channel
	unacked int // taken from the channel and not acknowledged
}

// aKind returns the kind with its article: "a PD", "an MR".
func (o *object) aKind() string {
	if strings.ContainsRune("MSA", rune(o.kind[0])) { // MR, MW, SRQ and AH begin with a vowel's sound
		return "an " + o.kind
	}
	return "a " + o.kind
}

// zeroBased reports whether a region's addresses count from 0.
func (o *object) zeroBased() bool { return o.mr.Access()&verbs.AccessZeroBased != 0 }

// open yields the open objects of a kind, in the order in which they were made.
func (h *host) open(kind string) iter.Seq[*object] {
	return func(yield func(*object) bool) {
		for _, o := range h.objects {
			if o.kind == kind && !o.closed && !yield(o) {
				return
			}
		}
	}
}

// find returns an open object of a kind; kind "" is any.
func (h *host) find(kind, name string) (*object, error) {
	for _, o := range h.objects {
		if o.name == name && !o.closed && (kind == "" || o.kind == kind) {
			return o, nil
		}
	}
	if kind == "" {
		kind = "object"
	}
	return nil, errors.Errorf("the %v has no %s %q", h.side, kind, name)
}

// region returns a region, even one that is closed: work requests may still name its memory.
func (h *host) region(name string) (*object, error) {
	for _, o := range slices.Backward(h.objects) {
		if o.name == name && o.kind == "MR" {
			return o, nil
		}
	}
	return nil, errors.Errorf("the %v has no region %q", h.side, name)
}

// validName reports whether a name is a letter and up to 15 letters and digits.
func validName(name string) bool {
	for i, c := range []byte(name) {
		letter, digit := c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if !letter && (i == 0 || !digit) {
			return false
		}
	}
	return name != "" && len(name) <= 16
}

// newName checks the name of an object to be made. C and Go programs use it for a variable.
func (h *host) newName(a *Action) error {
	kind, name := program.Makes[a.Do], a.Name
	if !validName(name) {
		return errors.Errorf("name %q: a name is a lower-case letter and up to 15 more letters and digits", name)
	}
	open := 0
	for _, o := range h.objects {
		if o.closed && (o.name != name || o.kind == kind) {
			continue
		}
		if o.closed {
			return errors.Errorf("%q was %s; a program has one variable of a name", name, o.aKind())
		}
		if open++; o.name == name {
			return errors.Errorf("the %v has %s %q already", h.side, o.aKind(), name)
		}
	}
	if open >= maxObjects {
		return errors.Errorf("a host has at most %d objects", maxObjects)
	}
	return nil
}

// add keeps an object that an action has made, or makes the Result of a refusal.
func (h *host) add(a *Action, o *object, closer io.Closer, err error) (*Result, error) {
	if err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	o.name, o.kind, o.made, o.closer = a.Name, program.Makes[a.Do], len(h.s.actions), closer
	h.objects = append(h.objects, o)
	h.made(o, "ibv_"+a.Do)
	return &Result{}, nil
}

func (h *host) allocPD(a *Action) (*Result, error) {
	if err := h.newName(a); err != nil {
		return nil, err
	}
	pd, err := h.dev.AllocPD()
	return h.add(a, &object{pd: pd, verb: "ibv_dealloc_pd"}, pd, err)
}

// Where regions lie: each host has its own range of addresses, so that an address says whose it is.
const (
	clientMemory = 0x10000000
	serverMemory = 0x20000000
	pageSize     = 4096
)

func (h *host) regMR(a *Action) (*Result, error) {
	pd, err := h.forNew(a)
	if err != nil {
		return nil, err
	}
	access, err := accessOf(a.Access)
	if err != nil {
		return nil, err
	}
	if a.Length < 0 || a.Length > maxRegion {
		return nil, errors.Errorf("a region of %d bytes: it has at most %d here", a.Length, maxRegion)
	}
	base := uint64(clientMemory)
	if h.side == simulated.Server {
		base = serverMemory
	}
	base += h.mapped
	options := verbs.MROptions{IOVA: base}
	if access&verbs.AccessZeroBased != 0 {
		options.IOVA = 0
	}
	words := make([]uint64, (a.Length+7)/8) // atomics need memory that begins at a multiple of 8
	mr, err := pd.pd.RegMRWith(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), a.Length), access, options)
	if err == nil {
		h.mapped += uint64(a.Length+2*pageSize-1) / pageSize * pageSize // with a gap, so that an overrun hits no other region
	}
	return h.add(a, &object{parents: []string{a.PD}, mr: mr, verb: "ibv_dereg_mr"}, mr, err)
}

// forNew checks the name of a new object and finds its domain.
func (h *host) forNew(a *Action) (*object, error) {
	if err := h.newName(a); err != nil {
		return nil, err
	}
	return h.find("PD", a.PD)
}

func (h *host) createCQ(a *Action) (*Result, error) {
	if err := h.newName(a); err != nil {
		return nil, err
	}
	if a.Depth > maxRegion {
		return nil, errors.Errorf("depth %d: a CQ has at most %d entries here", a.Depth, maxRegion)
	}
	cq, err := h.dev.CreateCQ(verbs.CQInit{Depth: a.Depth})
	return h.add(a, &object{cq: cq, verb: "ibv_destroy_cq"}, cq, err)
}

func (h *host) createSRQ(a *Action) (*Result, error) {
	pd, err := h.forNew(a)
	if err != nil {
		return nil, err
	}
	if a.MaxWR > maxQueue {
		return nil, errors.Errorf("max_wr %d: a queue has at most %d requests here", a.MaxWR, maxQueue)
	}
	srq, err := pd.pd.CreateSRQ(verbs.SRQInit{MaxWR: a.MaxWR, MaxSGE: a.MaxSGE})
	return h.add(a, &object{parents: []string{a.PD}, srq: srq, verb: "ibv_destroy_srq"}, srq, err)
}

// maxQueue limits the queues, so that a session cannot fill the browser's memory.
const maxQueue = 1024

// defaultCap is for actions without sizes.
var defaultCap = Cap{SendWR: 16, RecvWR: 16, SendSGE: 2, RecvSGE: 2, Inline: 64}

func capOf(c *Cap) verbs.QPCap {
	return verbs.QPCap{MaxSendWR: c.SendWR, MaxRecvWR: c.RecvWR, MaxSendSGE: c.SendSGE, MaxRecvSGE: c.RecvSGE, MaxInlineData: c.Inline}
}

func (h *host) createQP(a *Action) (*Result, error) {
	pd, err := h.forNew(a)
	if err != nil {
		return nil, err
	}
	types := map[string]verbs.QPType{"RC": verbs.RC, "UC": verbs.UC, "UD": verbs.UD}
	t, ok := types[a.Type]
	if !ok {
		return nil, errors.Errorf("type %q: a queue pair is RC, UC or UD", a.Type)
	}
	if a.Cap == nil {
		sizes := defaultCap
		a.Cap = &sizes
	}
	if max(a.Cap.SendWR, a.Cap.RecvWR) > maxQueue {
		return nil, errors.Errorf("a queue has at most %d requests here", maxQueue)
	}
	init := verbs.QPInit{Type: t, Cap: capOf(a.Cap), SigAll: a.SigAll}
	parents := []string{a.PD}
	for _, p := range []struct {
		name string
		to   **verbs.CQ
	}{{a.SendCQ, &init.SendCQ}, {a.RecvCQ, &init.RecvCQ}} {
		cq, err := h.find("CQ", p.name)
		if err != nil {
			return nil, err
		}
		*p.to = cq.cq
		if !slices.Contains(parents, p.name) {
			parents = append(parents, p.name)
		}
	}
	if a.SRQ != "" {
		srq, err := h.find("SRQ", a.SRQ)
		if err != nil {
			return nil, err
		}
		init.SRQ, parents = srq.srq, append(parents, a.SRQ)
	}
	qp, err := pd.pd.CreateQP(init)
	return h.add(a, &object{parents: parents, qp: qp, sigAll: a.SigAll, verb: "ibv_destroy_qp", sources: map[qpstate.Mask]setting{}}, qp, err)
}

func (h *host) createAH(a *Action) (*Result, error) {
	pd, err := h.forNew(a)
	if err != nil {
		return nil, err
	}
	if a.AV == nil {
		return nil, errors.New("an address handle needs av")
	}
	av, err := h.address(a.AV, a.Peer)
	if err != nil {
		return nil, err
	}
	ah, err := pd.pd.CreateAH(av)
	return h.add(a, &object{parents: []string{a.PD}, ah: ah, av: av, verb: "ibv_destroy_ah"}, ah, err)
}

func (h *host) allocMW(a *Action) (*Result, error) {
	pd, err := h.forNew(a)
	if err != nil {
		return nil, err
	}
	kind, ok := map[string]verbs.MWType{"1": verbs.MWType1, "2": verbs.MWType2}[a.Type]
	if !ok {
		return nil, errors.Errorf(`type %q: a window is "1" or "2"`, a.Type)
	}
	mw, err := pd.pd.AllocMW(kind)
	return h.add(a, &object{parents: []string{a.PD}, mw: mw, verb: "ibv_dealloc_mw"}, mw, err)
}

func (h *host) closeObject(a *Action) (*Result, error) {
	o, err := h.find("", a.Name)
	if err != nil {
		return nil, err
	}
	if o.unacked > 0 && len(h.children(o)) == 0 {
		return &Result{Asleep: true, Note: unacknowledged}, nil
	}
	if err := o.closer.Close(); err != nil {
		refused := refusalOf(err)
		h.freed(o, refused)
		return &Result{Refused: refused}, nil
	}
	o.closed = true
	h.freed(o, nil)
	return &Result{}, nil
}

// children returns the names of the open objects that use an object.
func (h *host) children(o *object) []string {
	names := []string{}
	for _, c := range h.objects {
		if !c.closed && slices.Contains(c.parents, o.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// closeAll closes everything, children first.
func (h *host) closeAll() error {
	for _, kind := range []string{"QP", "SRQ", "AH", "MW", "MR", "CQ", "PD"} {
		for o := range h.open(kind) {
			if err := o.closer.Close(); err != nil {
				return err
			}
			o.closed = true
		}
	}
	return nil
}

// bitsOf returns the value of a list of names.
func bitsOf[T ~uint32](what string, names []string, of map[string]T) (sum T, err error) {
	for _, name := range names {
		bit, ok := of[name]
		if !ok {
			return 0, errors.Errorf("%s %q: there is none of that name", what, name)
		}
		sum |= bit
	}
	return sum, nil
}

// namesOf makes the map of the single bits of a type by the names that name gives.
func namesOf[T ~uint32](bits []T, name func(T) string) map[string]T {
	m := make(map[string]T, len(bits))
	for _, b := range bits {
		m[name(b)] = b
	}
	return m
}

// The usual rights come first: the page offers them in this order.
var accessOrder = []verbs.Access{verbs.AccessLocalWrite, verbs.AccessRemoteRead, verbs.AccessRemoteWrite, verbs.AccessRemoteAtomic,
	verbs.AccessMWBind, verbs.AccessZeroBased, verbs.AccessOnDemand, verbs.AccessHugeTLB, verbs.AccessFlushGlobal, verbs.AccessFlushPersistent,
	verbs.AccessRelaxedOrdering}

var accessBits = namesOf(accessOrder, verbs.Access.Name)

func accessOf(names []string) (verbs.Access, error) { return bitsOf("right", names, accessBits) }

var flagBits = namesOf([]verbs.SendFlags{verbs.SendFence, verbs.SendSignaled, verbs.SendSolicited, verbs.SendInline},
	func(f verbs.SendFlags) string { return strings.TrimPrefix(f.String(), "IBV_SEND_") })

func flagsOf(names []string) (verbs.SendFlags, error) { return bitsOf("flag", names, flagBits) }
