// Fair queues: a number of bytes that queue pairs share, and the line in which they wait for room. Queue pairs in line
// get a quantum of bytes each, in the order in which they came. A quantum counts as spent until the queue pair
// has sent it or gives it back. No wake-up is lost, because every change of a queue pair ends with advance.

package transport

import (
	"sync"
	"sync/atomic"
)

// fairQueue is the bytes and the line. It has its own lock, which is taken after a queue pair's; the ready list's comes after it.
type fairQueue struct {
	spent  atomic.Int64 // charges and quanta
	window atomic.Int64 // the limit of spent
	length atomic.Int32 // of the line
	timed  bool         // the first in line asks when there is room (paced.go), so it must know that it is the first

	mu          sync.Mutex
	first, last *flow // in line
}

// flow is a queue pair's part in a fair queue.
type flow struct {
	of      *fairQueue
	qp      *QP
	charged int64        // bytes
	quantum atomic.Int64 // bytes left of it; 0 in line

	next *flow // in line; guarded by the fair queue's lock, like in
	in   bool
}

func (f *flow) join(s *fairQueue, qp *QP) { f.of, f.qp = s, qp }

// leave gives the flow's room back.
func (f *flow) leave() {
	f.stop()
	f.settle(0)
	f.of = nil
}

// stop leaves the line and ends the quantum.
func (f *flow) stop() {
	s := f.of
	s.mu.Lock()
	s.remove(f)
	s.mu.Unlock()
	f.endQuantum()
}

// waits reports whether the queue pair must wait before its next packet: it has no quantum, and there is no room or
// others are in line. The queue pair is then in line.
func (f *flow) waits() bool {
	if f.maySend() {
		return false
	}
	s := f.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.maySend() {
		return false // room came back meanwhile
	}
	if !f.in {
		f.in, f.next = true, nil
		if s.last == nil {
			s.first = f
		} else {
			s.last.next = f
		}
		s.last = f
		s.length.Add(1)
	}
	return true
}

func (f *flow) maySend() bool {
	s := f.of
	return f.quantum.Load() > 0 || s.length.Load() == 0 && s.spent.Load() < s.window.Load()
}

// hasQuantum reports whether others are in line, and the flow's quantum lasts for another burst.
func (f *flow) hasQuantum() bool { return f.of.length.Load() > 0 && f.quantum.Load() >= maxBurst }

// spend charges bytes to the fair queue. It returns true if the room that is left must come back soon: there is none, or
// less than a quantum. If ACKs may be few and the flow holds most of what is spent, enough comes back with those that it has asked for.
func (f *flow) spend(n int64) (last bool) {
	f.charged += n
	window := f.of.window.Load()
	left := window - f.use(n) + f.quantum.Load()
	return left <= 0 || left < f.of.quantum() && (!f.qp.mayAskLess() || 2*f.charged < window)
}

// use takes bytes from the quantum, or from the room. It returns what is spent now.
func (f *flow) use(n int64) (spent int64) {
	used := min(n, f.quantum.Load())
	f.quantum.Add(-used)
	return f.of.spent.Add(n - used)
}

// packets returns how many packets of n bytes may be spent now, at most until one asks for an ACK.
func (f *flow) packets(n int64) int64 {
	s, quantum := f.of, f.quantum.Load()
	left := s.window.Load() - s.spent.Load() + quantum
	may := max(left, quantum)
	if s.length.Load() > 0 {
		may = quantum
	}
	if may = (may + n - 1) / n; f.qp.mayAskLess() {
		return may
	}
	return min(may, max(left-s.quantum(), 0)/n+1)
}

// endQuantum gives back what is left of a quantum. A queue pair that has no more to send must call it, because the bytes
// of a quantum count as spent.
func (f *flow) endQuantum() {
	if left := f.quantum.Swap(0); left > 0 {
		f.of.spent.Add(-left)
	}
}

// shorten gives back what is left of a quantum, but for n bytes. The flow is not in line.
func (f *flow) shorten(n int64) {
	if rest := f.quantum.Load() - n; rest > 0 {
		f.quantum.Add(-rest)
		f.of.spent.Add(-rest)
	}
}

// quantum is how many bytes a queue pair sends before the next in line. Long bursts cost less. A small window is one
// quantum, because each is at least one packet.
func (s *fairQueue) quantum() int64 {
	if w := s.window.Load(); w > unprovenPacket {
		return w / 4
	}
	return s.window.Load()
}

// settle makes the charge what is due now. Others may then leave the line.
func (f *flow) settle(due int64) {
	if due != f.charged {
		f.of.spent.Add(due - f.charged)
		f.charged = due
	}
	f.of.advance()
}

// advance puts queue pairs at the front of the line on the ready list, one per quantum that there is room for. So if
// there is room for a quantum and somebody is in line, the next one is on the ready list.
func (s *fairQueue) advance() {
	quantum := s.quantum()
	if s.length.Load() == 0 || s.spent.Load()+quantum > s.window.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for room := s.window.Load() - s.spent.Load(); room >= quantum && s.first != nil; room -= quantum {
		next := s.first
		s.remove(next)
		s.spent.Add(quantum)
		next.quantum.Store(quantum)
		next.qp.engine.ready.add(next.qp)
	}
}

// remove takes a flow out of the line.
func (s *fairQueue) remove(f *flow) {
	if !f.in {
		return
	}
	var before *flow
	for q := s.first; q != f; q = q.next {
		before = q
	}
	if before == nil {
		s.first = f.next
	} else {
		before.next = f.next
	}
	if s.last == f {
		s.last = before
	}
	f.next, f.in = nil, false
	s.length.Add(-1)
	if s.timed && before == nil && s.first != nil {
		s.first.qp.engine.ready.add(s.first.qp)
	}
}
