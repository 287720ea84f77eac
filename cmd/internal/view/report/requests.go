// Which work request a packet belongs to. The record has no PSN of a request, but the PSNs follow
// from the first one and from the requests before: a request of n bytes takes n divided by the path
// MTU, rounded up, and at least one.

package report

import (
	"log/slog"
	"sort"
	"strings"

	"github.com/rawverbs/rawverbs/internal/event"
)

// request is a work request of a send queue with the packets that it takes.
type request struct {
	event int    // index of its wr.posted in the record
	kind  string // as dissect.Packet.Kind
	at    uint32 // PSNs after the first of the queue pair
	count uint32 // of PSNs
}

// kinds has the packets of each opcode of work requests, which Message names. An opcode that sends
// no packet is missing.
var kinds = map[string]string{
	"SEND": "SEND", "SEND_WITH_IMM": "SEND", "SEND_WITH_INV": "SEND",
	"RDMA_WRITE": "RDMA_WRITE", "RDMA_WRITE_WITH_IMM": "RDMA_WRITE", "RDMA_READ": "RDMA_READ_REQUEST",
	"ATOMIC_CMP_AND_SWP": "COMPARE_SWAP", "ATOMIC_FETCH_AND_ADD": "FETCH_ADD",
	"FLUSH": "FLUSH", "ATOMIC_WRITE": "ATOMIC_WRITE",
}

const psnMask = 1<<24 - 1

// number gives each request of the record its PSNs. It ends at the first place where the record may
// lack a request, where a queue pair is used again, and where the numbers begin again.
func (r *Report) number() {
	over := map[any]bool{} // ends and queue pairs
	begun := map[*endpoint]bool{}
	for i := range r.record.Events {
		e := &r.record.Events[i]
		switch e.Event {
		case event.RecordGap.Name(), event.OperationsOmitted.Name():
			over[e.End] = true
		case event.QPTransition.Name():
			if p := r.queuePair(e.End, e.Attr("qpn").String()); p != nil && e.Attr("attr", "SQ_PSN").Kind() == slog.KindString {
				over[p], begun[p] = over[p] || begun[p], true
			}
		case event.SendPosted.Name():
			p := r.queuePair(e.End, e.Attr("qpn").String())
			kind, sends := kinds[strings.TrimPrefix(e.Message, "post ")]
			refused := e.Attr("error").Kind() == slog.KindString
			if e.Verb != event.SendPosted.Verb() || refused || !sends || p == nil || p.mtu == 0 || over[e.End] || over[p] {
				continue
			}
			q := request{event: i, kind: kind, count: 1}
			if n := e.Attr("bytes"); n.Kind() == slog.KindInt64 && n.Int64() > 0 && n.Int64() <= 1<<31 {
				q.count = uint32((n.Int64() + int64(p.mtu) - 1) / int64(p.mtu))
			}
			if last := len(p.requests) - 1; last >= 0 {
				q.at = p.requests[last].at + p.requests[last].count
			}
			if over[p] = q.at+q.count > psnMask; !over[p] {
				p.requests = append(p.requests, q)
			}
		}
	}
}

// queuePair returns the queue pair of an end to which a request was posted: the one that the record
// names, or the only one. It returns nil if that is not known.
func (r *Report) queuePair(end, qpn string) *endpoint {
	if n, named := number24(qpn); named {
		return r.endpoints.find(end, n)
	}
	return r.endpoints.alone[end]
}

// requestOf returns the index of the request that a PSN of the requester belongs to, -1 if there is
// none.
func (e *endpoint) requestOf(psn uint32) int {
	at := (psn - e.psn) & psnMask
	i := sort.Search(len(e.requests), func(i int) bool { return e.requests[i].at > at }) - 1
	if i < 0 || at >= e.requests[i].at+e.requests[i].count {
		return -1
	}
	return i
}

// check compares the requests with a packet of the queue pair, and forgets the requests from a
// contradiction on: the program has posted requests that the record does not have.
func (e *endpoint) check(p *packet) {
	i := e.requestOf(p.PSN)
	if i < 0 {
		return
	}
	q := &e.requests[i]
	first := (p.PSN-e.psn)&psnMask == q.at
	if q.kind != p.Kind || p.Starts && !first {
		e.requests = e.requests[:i]
	}
}
