// The values of actions: what both languages write alike, from a language's own words.

package program

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/qpstate"
)

// words are the values and variables whose code depends on the language.
type words interface {
	v(h *Host, name string) string         // the variable of an object
	psn(h *Host, qp string) string         // the variable with a queue pair's first PSN
	known(h *Host, qp string) string       // the variable with what the host knows of the peer's queue pair
	knownMemory(h *Host, mr string) string // the variable with what the host knows of the peer's region
	address(h *Host, av *action.AV, peer string) string
	state(name string) string
	access(names []string) string
	mtu(n int) string
	boolean(b bool) string
}

// value writes an attribute of a queue pair.
func value(in words, h *Host, a *action.Action, bit qpstate.Mask, raw json.RawMessage) string {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		known := in.known(h, a.Peer)
		switch {
		case word == "own":
			return in.psn(h, a.Name)
		case bit == qpstate.MaskState || bit == qpstate.MaskCurState:
			return in.state(word)
		case bit == qpstate.MaskAV:
			return in.address(h, &action.AV{GID: "peer"}, a.Peer)
		case bit == qpstate.MaskDestQPN:
			return known + ".qpn"
		case bit == qpstate.MaskRQPSN:
			return known + ".psn"
		case bit == qpstate.MaskQKey:
			return known + ".qkey"
		case bit == qpstate.MaskPathMTU:
			return known + ".mtu"
		}
	}
	switch bit {
	case qpstate.MaskAccessFlags:
		var names []string
		_ = json.Unmarshal(raw, &names) // modify_qp has read it
		return in.access(names)
	case qpstate.MaskAV:
		var av action.AV
		_ = json.Unmarshal(raw, &av) // modify_qp has read it
		return in.address(h, &av, a.Peer)
	case qpstate.MaskPathMTU:
		var n int
		_ = json.Unmarshal(raw, &n) // modify_qp has read it
		if _, ok := qpstate.MTUFor(n); ok {
			return in.mtu(n)
		}
	case qpstate.MaskEnSQDAsyncNotify:
		return in.boolean(string(raw) == "true")
	}
	return numberText(raw)
}

// numberText is a number as code.
func numberText(raw json.RawMessage) string {
	var n action.Num
	if json.Unmarshal(raw, &n) != nil {
		return "0"
	}
	if n > 255 {
		return fmt.Sprintf("%#x", uint64(n))
	}
	return fmt.Sprint(uint64(n))
}

// codedBits are the attributes that a program sets.
const codedBits = ^(qpstate.MaskAltPath | qpstate.MaskPathMigState | qpstate.MaskCap)

// path writes the source GID's index, the port and the hop limit of an address vector. ownIndex is
// the code of the index that the host has chosen.
func path(av *action.AV, ownIndex string) (index, port string, hops int) {
	index, port, hops = ownIndex, "1", 64
	if av.SGIDIndex != nil {
		index = fmt.Sprint(*av.SGIDIndex)
	}
	if av.Port != nil {
		port = fmt.Sprint(*av.Port)
	}
	if av.HopLimit != nil {
		hops = int(*av.HopLimit)
	}
	return index, port, hops
}

// remote writes the address and the key of the peer's memory.
func remote(in words, h *Host, r *action.Remote) (addr, rkey string) {
	if r == nil {
		return "0", "0"
	}
	addr, rkey = fmt.Sprintf("%#x", uint64(r.Addr)), fmt.Sprintf("%#x", uint64(r.RKey))
	if r.MR != "" {
		known := in.knownMemory(h, r.MR)
		addr, rkey = known+".addr", known+".rkey"
	}
	return addr + plus(r.Offset, fmt.Sprint(r.Offset)), rkey + plus(int(r.RKeyAdd), fmt.Sprintf("%#x", r.RKeyAdd))
}

// datagram writes the number and the key of the queue pair that a datagram goes to.
func datagram(in words, h *Host, w *action.WR) (qpn, qkey string) {
	known := in.known(h, w.RemoteQP)
	qpn, qkey = known+".qpn", known+".qkey"
	if w.RemoteQPN != nil {
		qpn = fmt.Sprintf("%#x", uint64(*w.RemoteQPN))
	}
	if w.RemoteQKey != nil {
		qkey = fmt.Sprintf("%#x", uint64(*w.RemoteQKey))
	}
	return qpn, qkey
}

// flags joins flags, each of which word writes: "IBV_ACCESS_LOCAL_WRITE | …".
func flags(names []string, word func(name string) string) string {
	if len(names) == 0 {
		return "0"
	}
	var list []string
	for _, n := range names {
		list = append(list, word(n))
	}
	return strings.Join(list, " | ")
}

// srqChange returns the mask of modify_srq and the new limit.
func srqChange(a *action.Action) (mask []string, limit uint32) {
	if a.MaxWR != 0 {
		mask = append(mask, "MAX_WR")
	}
	if a.Limit != nil {
		limit, mask = *a.Limit, append(mask, "LIMIT")
	}
	return mask, limit
}

// plus is an offset as code: "" for 0, and otherwise " + number".
func plus(n int, number string) string {
	if n == 0 {
		return ""
	}
	return " + " + number
}
