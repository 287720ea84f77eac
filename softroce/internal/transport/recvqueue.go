// Receive queues: a queue pair's own, and the shared receive queue (SRQ).
//
// A queue pair's lock guards its own queue. An SRQ has a lock, taken after the queue pair's.

package transport

import (
	"sync"
	"syscall"

	"github.com/rawverbs/rawverbs/verbs"
)

// recvWQE is a posted receive.
type recvWQE struct {
	id     uint64
	sgl    []verbs.SGE
	length uint64
}

// recvQueue is a ring of receives. It owns the memory of their lists.
type recvQueue struct {
	wqes   []recvWQE
	maxSGE int
	head   uint32 // index of the oldest
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

// push adds a receive. It returns EINVAL for too many elements, and ENOMEM if the queue is
// full.
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

// pop removes the oldest receive and copies it to w. w.sgl must have enough capacity.
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

// resize changes the size to wrs and keeps the queued receives. There must not be more than
// wrs.
func (q *recvQueue) resize(wrs uint32) {
	bigger := newRecvQueue(wrs, uint32(q.maxSGE))
	for bigger.count < wrs && q.pop(&bigger.wqes[bigger.count]) {
		bigger.count++
	}
	q.wqes, q.head, q.count = bigger.wqes, bigger.head, bigger.count // maxSGE is read without the lock
}

// SRQ is a shared receive queue.
type SRQ struct {
	User any // free for the caller's use

	pd     *PD
	number uint32

	mu    sync.Mutex
	queue recvQueue
	limit uint32
}

// CreateSRQ returns a queue of wrs receives of up to sges elements each. It returns EINVAL if
// wrs is 0 or above MaxQPWR, or if sges is above MaxSGE; and ENOMEM if there are MaxSRQ.
func (pd *PD) CreateSRQ(wrs, sges uint32) (*SRQ, error) {
	if wrs == 0 || wrs > MaxQPWR || sges > MaxSGE {
		return nil, syscall.EINVAL
	}
	if err := pd.engine.openSRQs.add(MaxSRQ); err != nil {
		return nil, err
	}
	sges = max(sges, 1)
	return &SRQ{pd: pd, number: pd.engine.srqs.Add(1), queue: newRecvQueue(wrs, sges)}, nil
}

// Close must be called once.
func (s *SRQ) Close() error {
	s.pd.engine.openSRQs.drop()
	return nil
}

// Number returns the SRQ's number, which is unique among all SRQs of the engine.
func (s *SRQ) Number() uint32 { return s.number }

// PostRecv queues receives and returns how many it has queued, like QP.PostRecv.
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

// Modify applies the attributes that mask names. SRQLimit asks for one EventSRQLimitReached
// when fewer than Limit receives are left; 0 asks for none. SRQMaxWR resizes the queue. Modify
// changes nothing and returns EINVAL if the size is 0, above MaxQPWR or below the number of
// queued receives, and if the limit is above the size.
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

// Query returns the sizes, and the limit if it is still armed.
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
