// Receive queues: a queue pair's own, and the one that several share (SRQ).

package transport

import (
	"sync"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// recvWQE is one place for a message.
type recvWQE struct {
	id     uint64
	sgl    []verbs.SGE
	length uint64
}

// recvQueue is a ring of receives whose lists have memory of their own.
type recvQueue struct {
	wqes   []recvWQE
	maxSGE int
	head   uint32 // counts receives taken, head modulo len(wqes) is the oldest
	count  uint32
}

func newRecvQueue(wrs, sges uint32) recvQueue {
	q := recvQueue{wqes: make([]recvWQE, wrs), maxSGE: int(sges)}
	lists := make([]verbs.SGE, wrs*sges)
	for i := range q.wqes {
		q.wqes[i].sgl, lists = lists[:0:sges], lists[sges:]
	}
	return q
}

// push adds a receive: EINVAL for too many elements, ENOMEM if there is no room.
func (q *recvQueue) push(wr *verbs.RecvWR) error {
	length := sglLength(wr.SGL)
	if len(wr.SGL) > q.maxSGE || length > MaxMessage {
		return syscall.EINVAL
	}
	if int(q.count) == len(q.wqes) {
		return syscall.ENOMEM
	}
	w := &q.wqes[(q.head+q.count)%uint32(len(q.wqes))]
	w.id, w.length = wr.ID, length
	w.sgl = append(w.sgl[:0], wr.SGL...)
	q.count++
	return nil
}

// pop moves the oldest receive into w, whose list is large enough.
func (q *recvQueue) pop(w *recvWQE) bool {
	if q.count == 0 {
		return false
	}
	from := &q.wqes[q.head]
	w.id, w.length = from.id, from.length
	w.sgl = append(w.sgl[:0], from.sgl...)
	if q.head++; int(q.head) == len(q.wqes) {
		q.head = 0
	}
	q.count--
	return true
}

// resize makes room for wrs receives; those that are queued, no more than that, stay.
func (q *recvQueue) resize(wrs uint32) {
	bigger := newRecvQueue(wrs, uint32(q.maxSGE))
	for bigger.count < wrs && q.pop(&bigger.wqes[bigger.count]) {
		bigger.count++
	}
	*q = bigger
}

// SRQ is a shared receive queue.
type SRQ struct {
	User any // the owner's own

	pd     *PD
	number uint32

	mu    sync.Mutex
	queue recvQueue
	limit uint32
}

// CreateSRQ makes a queue of wrs receives of up to sges elements each. EINVAL
// if that is none, or more than MaxQPWR and MaxSGE.
func (pd *PD) CreateSRQ(wrs, sges uint32) (*SRQ, error) {
	if wrs == 0 || wrs > MaxQPWR || sges > MaxSGE {
		return nil, syscall.EINVAL
	}
	sges = max(sges, 1)
	return &SRQ{pd: pd, number: pd.engine.srqs.Add(1), queue: newRecvQueue(wrs, sges)}, nil
}

// Number is the SRQ's number, which no other SRQ of the engine had.
func (s *SRQ) Number() uint32 { return s.number }

// PostRecv queues receives and returns how many were taken, as a QP's.
func (s *SRQ) PostRecv(wrs []verbs.RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range wrs {
		if err := s.queue.push(&wrs[i]); err != nil {
			return i, err
		}
	}
	return len(wrs), nil
}

// Modify applies what mask names: SRQLimit asks for one EventSRQLimitReached when
// fewer than Limit receives are left, 0 for none; SRQMaxWR resizes. EINVAL, and
// nothing is done, for a size that there cannot be or that is below the receives
// queued, and for a limit above the size.
func (s *SRQ) Modify(a verbs.SRQAttr, mask verbs.SRQAttrMask) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wrs, limit := uint32(len(s.queue.wqes)), s.limit
	if mask&verbs.SRQMaxWR != 0 {
		wrs = a.MaxWR
	}
	if mask&verbs.SRQLimit != 0 {
		limit = a.Limit
	}
	if mask&^(verbs.SRQMaxWR|verbs.SRQLimit) != 0 || wrs == 0 || wrs > MaxQPWR || wrs < s.queue.count || limit > wrs {
		return syscall.EINVAL
	}
	if mask&verbs.SRQMaxWR != 0 {
		s.queue.resize(wrs)
	}
	s.limit = limit
	return nil
}

// Query tells the sizes, and the limit still armed.
func (s *SRQ) Query() verbs.SRQAttr {
	s.mu.Lock()
	defer s.mu.Unlock()
	return verbs.SRQAttr{MaxWR: uint32(len(s.queue.wqes)), MaxSGE: uint32(s.queue.maxSGE), Limit: s.limit}
}

func (s *SRQ) pop(w *recvWQE) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.queue.pop(w) {
		return false
	}
	if s.queue.count < s.limit {
		s.limit = 0
		s.pd.engine.cfg.Event(Event{Type: verbs.EventSRQLimitReached, SRQ: s})
	}
	return true
}
