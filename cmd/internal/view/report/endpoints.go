// The queue pairs of a run, as its record has them.

package report

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
)

// endpoint is a queue pair of one end. What the record does not say is zero.
type endpoint struct {
	end  string
	qpn  uint32
	addr netip.Addr
	psn  uint32 // of the first packet that its requester sends
	mtu  int
	peer *endpoint // the queue pair at the other end; nil if that is not known

	requests []request // in the order of posting; see number
}

// endpoints are the queue pairs of a run.
type endpoints struct {
	all   []*endpoint            // in the order in which the record names them
	byQPN map[uint32][]*endpoint // at most one of each end
	alone map[string]*endpoint   // the queue pair of an end that has only one
}

// find returns the queue pair of an end, nil if the record does not name it.
func (l *endpoints) find(end string, qpn uint32) *endpoint {
	for _, e := range l.byQPN[qpn] {
		if e.end == end {
			return e
		}
	}
	return nil
}

// endpointsOf finds the queue pairs that the record names. Each end knows its own and its peer's.
func endpointsOf(record *trace.Record) endpoints {
	l := endpoints{byQPN: map[uint32][]*endpoint{}, alone: map[string]*endpoint{}}
	find := func(end string, qpn uint32) *endpoint {
		e := l.find(end, qpn)
		if e == nil {
			e = &endpoint{end: end, qpn: qpn}
			l.all, l.byQPN[qpn] = append(l.all, e), append(l.byQPN[qpn], e)
		}
		return e
	}
	locals, remotes := map[string][]*endpoint{}, map[string][]*endpoint{}
	for i := range record.Events {
		e := &record.Events[i]
		qpn, ok := number24(e.Attr("qpn").String())
		if !ok {
			continue
		}
		switch e.Event {
		case event.PeerTuple.Name():
			end, list := e.End, locals
			if e.Attr("side").String() == "remote" {
				end, list = trace.OtherEnd(end), remotes
			}
			p := find(end, qpn)
			list[e.End] = append(list[e.End], p)
			if gid, err := netip.ParseAddr(e.Attr("gid").String()); err == nil {
				p.addr = gid.Unmap()
			}
			if psn, ok := number24(e.Attr("psn").String()); ok {
				p.psn = psn
			}
			if mtu, err := strconv.Atoi(e.Attr("mtu").String()); err == nil && mtu >= 256 && mtu <= 4096 {
				p.mtu = mtu
			}
		case event.QPTransition.Name(): // the most certain source
			p := find(e.End, qpn)
			if dest, ok := number24(e.Attr("attr", "DEST_QPN").String()); ok {
				p.peer = find(trace.OtherEnd(e.End), dest)
				if p.peer.peer == nil {
					p.peer.peer = p
				}
			}
			if mtu, err := strconv.Atoi(e.Attr("attr", "PATH_MTU").String()); err == nil && mtu >= 256 && mtu <= 4096 {
				p.mtu = mtu
			}
			if psn, ok := number24(e.Attr("attr", "SQ_PSN").String()); ok {
				p.psn = psn
			}
		}
	}
	// An end lists its own queue pairs and its peer's in the same order.
	for end, list := range locals {
		for i, p := range list {
			if i < len(remotes[end]) && p.peer == nil && remotes[end][i].peer == nil {
				p.peer, remotes[end][i].peer = remotes[end][i], p
			}
		}
	}
	for _, p := range l.all {
		if p.mtu == 0 && p.peer != nil {
			p.mtu = p.peer.mtu
		}
		if _, more := l.alone[p.end]; more {
			l.alone[p.end] = nil
		} else {
			l.alone[p.end] = p
		}
	}
	return l
}

// number24 reads a number of 24 bits as C prints it: "0x000011".
func number24(text string) (uint32, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 24)
	return uint32(n), err == nil && strings.HasPrefix(text, "0x")
}

// receiver returns the queue pair that a packet is for, nil if it is of no queue pair of the run. The
// number alone is not enough: both hosts may use the same numbers.
func (r *Report) receiver(dst netip.Addr, qpn uint32) *endpoint {
	var found *endpoint
	for _, e := range r.endpoints.byQPN[qpn] {
		switch {
		case e.addr.IsValid() && e.addr != dst:
		case found != nil: // two, and no address tells them apart
			return nil
		default:
			found = e
		}
	}
	return found
}
