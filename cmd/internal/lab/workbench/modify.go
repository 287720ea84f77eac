// Moving a queue pair: any mask, any values, and where each value came from.

package workbench

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Source says where an attribute's value came from.
type Source struct {
	From   string `json:"from"`   // one of the Sources
	Action int    `json:"action"` // number of the action that set it; -1 for "reset", "state", "counted" and "device"
}

// setting is where an attribute came from, and the text of its value then.
type setting struct {
	Source
	text string
}

// The sources of a value.
const (
	FromReset   = "reset"   // the value of a queue pair in RESET
	FromOwn     = "own"     // this end's choice
	FromTold    = "told"    // this end's choice, which it has told the peer: the first PSN
	FromPeer    = "peer"    // the peer told it
	FromZero    = "zero"    // the mask has the bit, but nobody set the field: the 0 that memset left
	FromState   = "state"   // the device set it, with the state
	FromCounted = "counted" // it was set, and the device has counted on from there, or gone back: a PSN
	FromDevice  = "device"  // the device set it by itself: the state after an error
)

// maskBits are the bits by their names.
var maskBits = namesOf(action.AllBits.Bits(), qpstate.Mask.Name)

var stateNames = func() map[string]qpstate.State {
	m := make(map[string]qpstate.State)
	for _, s := range append(qpstate.States(), qpstate.Unknown) {
		m[s.Name()] = s
	}
	return m
}()

func (h *host) modifyQP(a *Action) (*Result, error) {
	o, err := h.find("QP", a.Name)
	if err != nil {
		return nil, err
	}
	mask, err := bitsOf("bit", a.Mask, maskBits)
	if err != nil {
		return nil, err
	}
	h.dummies(o, a)
	m := &modification{h: h, o: o, peer: a.Peer, from: map[qpstate.Mask]string{}}
	for _, bit := range action.AllBits.Bits() {
		switch raw, given := a.Attr[bit.Name()]; {
		case given:
			if err := m.set(bit, raw); err != nil {
				return nil, errors.WithMessage(err, bit.Name())
			}
		case mask&bit != 0:
			m.from[bit] = FromZero
		}
	}
	for name := range a.Attr {
		if _, ok := maskBits[name]; !ok {
			return nil, errors.Errorf("attribute %q: there is none of that name", name)
		}
	}
	before := h.s.stateOf(h, o)
	err = o.qp.Modify(&m.attr, mask)
	h.moved(o, before, &m.attr, mask, err)
	if err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	if mask&qpstate.MaskState != 0 {
		o.program = m.attr.State
		if m.attr.State == qpstate.Reset {
			clear(o.sources)
		}
	}
	now, _ := h.s.world.InspectQP(h.side, o.qp)
	for _, bit := range mask.Bits() {
		if bit != qpstate.MaskState || m.attr.State != qpstate.Reset {
			o.sources[bit] = setting{Source{m.from[bit], len(h.s.actions)}, now.Attr.Value(bit)}
		}
	}
	return &Result{Note: m.truncated(mask)}, nil
}

// dummies gives values to the attributes that no end has told, if the move does not take them: then the device refuses
// their bits, whatever the values are.
func (h *host) dummies(o *object, a *Action) {
	var to string
	if !slices.Contains(a.Mask, qpstate.MaskState.Name()) || json.Unmarshal(a.Attr[qpstate.MaskState.Name()], &to) != nil {
		return
	}
	_, untold := h.toldOf(a.Peer)
	move, ok := qpstate.Lookup(o.qp.Type(), h.s.stateOf(h, o), stateNames[to])
	if !ok {
		return
	}
	for _, bit := range (action.AllBits &^ (move.Required | move.Optional)).Bits() {
		name, value := bit.Name(), "0"
		switch bit {
		case qpstate.MaskAV:
			value = `{"gid": "10.0.0.2"}`
		case qpstate.MaskPathMTU:
			value = "1024"
		}
		word := string(a.Attr[name])
		if word == `"peer"` && untold != nil || word == `"own"` && o.psn == nil {
			a.Attr = maps.Clone(a.Attr)
			a.Attr[name] = json.RawMessage(value)
		}
	}
}

// maxPSN is the largest PSN, and the largest number of a queue pair.
const maxPSN = 1<<24 - 1

// truncated notes a number of more than 24 bits. Devices take the lower 24 without an error.
func (m *modification) truncated(mask qpstate.Mask) string {
	for _, bit := range (mask & (qpstate.MaskRQPSN | qpstate.MaskSQPSN | qpstate.MaskDestQPN)).Bits() {
		if n := *m.word(bit); n > maxPSN {
			return fmt.Sprintf("the device took the lower 24 bits: %s %#x → %#06x", bit.Name(), n, n&maxPSN)
		}
	}
	return ""
}

// modification is the attributes of one modify_qp in the making.
type modification struct {
	h    *host
	o    *object
	peer string // the peer's queue pair that "peer" stands for
	attr qpstate.Attr
	from map[qpstate.Mask]string
}

// set sets an attribute from its JSON: a value, "peer" or "own".
func (m *modification) set(bit qpstate.Mask, raw json.RawMessage) error {
	var word string
	if json.Unmarshal(raw, &word) == nil && (word == "peer" || word == "own") {
		return m.refer(bit, word)
	}
	m.from[bit] = FromOwn
	a := &m.attr
	switch bit {
	case qpstate.MaskState:
		return m.state(raw, &a.State)
	case qpstate.MaskCurState:
		return m.state(raw, &a.CurState)
	case qpstate.MaskEnSQDAsyncNotify:
		return json.Unmarshal(raw, &a.EnSQDAsyncNotify)
	case qpstate.MaskAccessFlags:
		var names []string
		if err := json.Unmarshal(raw, &names); err != nil {
			return err
		}
		access, err := accessOf(names)
		a.Access = access
		return err
	case qpstate.MaskAV:
		var av AV
		if err := json.Unmarshal(raw, &av); err != nil {
			return err
		}
		if av.FromPeer() {
			m.from[bit] = FromPeer
		}
		path, err := m.h.address(&av, m.peer)
		a.AH = path
		return err
	case qpstate.MaskPathMTU:
		var n int
		if err := json.Unmarshal(raw, &n); err != nil {
			return err
		}
		mtu, ok := qpstate.MTUFor(n)
		if !ok && (n < 0 || n > math.MaxUint8) {
			return errors.Errorf("%d is not an MTU: 256, 512, 1024, 2048, 4096, or a number of enum ibv_mtu", n)
		}
		if !ok {
			mtu = qpstate.MTU(n)
		}
		a.PathMTU = mtu
		return nil
	case qpstate.MaskPKeyIndex:
		return number(raw, &a.PKeyIndex)
	case qpstate.MaskRQPSN, qpstate.MaskSQPSN, qpstate.MaskDestQPN, qpstate.MaskQKey, qpstate.MaskRateLimit:
		return number(raw, m.word(bit))
	case qpstate.MaskAltPath, qpstate.MaskPathMigState, qpstate.MaskCap:
		return nil // the bit alone decides: no RoCE device takes it
	}
	return number(raw, m.byte(bit))
}

func (m *modification) word(bit qpstate.Mask) *uint32 {
	return map[qpstate.Mask]*uint32{qpstate.MaskRQPSN: &m.attr.RQPSN, qpstate.MaskSQPSN: &m.attr.SQPSN, qpstate.MaskDestQPN: &m.attr.DestQPN,
		qpstate.MaskQKey: &m.attr.QKey, qpstate.MaskRateLimit: &m.attr.RateLimit}[bit]
}

func (m *modification) byte(bit qpstate.Mask) *uint8 {
	return map[qpstate.Mask]*uint8{qpstate.MaskPort: &m.attr.PortNum, qpstate.MaskTimeout: &m.attr.Timeout, qpstate.MaskRetryCnt: &m.attr.RetryCnt,
		qpstate.MaskRNRRetry: &m.attr.RNRRetry, qpstate.MaskMinRNRTimer: &m.attr.MinRNRTimer, qpstate.MaskMaxRdAtomic: &m.attr.MaxRdAtomic,
		qpstate.MaskMaxDestRdAtomic: &m.attr.MaxDestRdAtomic}[bit]
}

func (m *modification) state(raw json.RawMessage, to *qpstate.State) error {
	var name string
	if err := json.Unmarshal(raw, &name); err != nil {
		return err
	}
	s, ok := stateNames[name]
	if !ok {
		return errors.Errorf("%q is not a state", name)
	}
	*to = s
	return nil
}

// number reads a number that must fit its field.
func number[T ~uint8 | ~uint16 | ~uint32](raw json.RawMessage, to *T) error {
	var n Num
	if err := json.Unmarshal(raw, &n); err != nil {
		return err
	}
	if *to = T(n); Num(*to) != n {
		return errors.Errorf("%d does not fit into the field", n)
	}
	return nil
}

// refer sets an attribute from what was told.
func (m *modification) refer(bit qpstate.Mask, whose string) error {
	if whose == "own" {
		if bit != qpstate.MaskSQPSN || m.o.psn == nil {
			return errors.New("this queue pair has told the peer no PSN: tell it first (exchange), or choose a number")
		}
		m.attr.SQPSN, m.from[bit] = *m.o.psn, FromTold
		return nil
	}
	t, err := m.h.toldOf(m.peer)
	if err != nil {
		return err
	}
	m.from[bit] = FromPeer
	switch bit {
	case qpstate.MaskAV:
		m.attr.AH, err = m.h.address(&AV{GID: "peer"}, m.peer)
		return err
	case qpstate.MaskDestQPN:
		m.attr.DestQPN = t.QPN
	case qpstate.MaskRQPSN:
		m.attr.RQPSN = t.PSN
	case qpstate.MaskQKey:
		m.attr.QKey = t.QKey
	case qpstate.MaskPathMTU:
		port, err := m.h.dev.QueryPort(1)
		if err != nil {
			return err
		}
		m.attr.PathMTU = min(t.MTU, port.ActiveMTU)
	default:
		return errors.New("the peer tells AV, DEST_QPN, RQ_PSN, QKEY and PATH_MTU")
	}
	return nil
}

// address makes an address vector.
func (h *host) address(av *AV, peer string) (verbs.AHAttr, error) {
	var gid verbs.GID
	if av.FromPeer() {
		t, err := h.toldOf(peer)
		if err != nil {
			return verbs.AHAttr{}, err
		}
		gid = t.GID
	} else {
		ip, err := netip.ParseAddr(av.GID)
		if err != nil || ip.Zone() != "" {
			return verbs.AHAttr{}, errors.Errorf(`%q is not a GID: an address such as "10.0.0.2", or "peer"`, av.GID)
		}
		gid = qpstate.GIDFrom(ip)
	}
	or := func(given *uint8, otherwise uint8) uint8 {
		if given != nil {
			return *given
		}
		return otherwise
	}
	return verbs.AHAttr{IsGlobal: !av.Local, PortNum: or(av.Port, 1), GRH: verbs.GRH{DGID: gid, SGIDIndex: or(av.SGIDIndex, 1),
		HopLimit: or(av.HopLimit, 64), TrafficClass: av.TrafficClass, FlowLabel: av.FlowLabel}}, nil
}

func (h *host) queryQP(a *Action) (*Result, error) {
	o, err := h.find("QP", a.Name)
	if err != nil {
		return nil, err
	}
	attr, err := o.qp.Query(action.Queried)
	if err != nil {
		return &Result{Refused: refusalOf(err)}, nil
	}
	h.queried(o, &attr)
	return &Result{}, nil
}

// applies are the attributes that each type of queue pair has: those that one of its moves takes.
var applies = func() map[qpstate.Type][]qpstate.Mask {
	m := map[qpstate.Type][]qpstate.Mask{}
	for _, t := range qpstate.Types() {
		all := qpstate.MaskState
		for _, move := range qpstate.Transitions(t) {
			all |= move.Required | move.Optional
		}
		m[t] = (all &^ (qpstate.MaskAltPath | qpstate.MaskPathMigState | qpstate.MaskCurState | qpstate.MaskEnSQDAsyncNotify)).Bits()
	}
	return m
}()
