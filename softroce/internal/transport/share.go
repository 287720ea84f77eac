// Shares: a number of bytes that queue pairs share, and the line in which they wait for room. It is fair, because
// those in line get turns in the order in which they came. The bytes of a turn count as spent until the queue pair
// has sent them or gives them back. No wake-up is lost, because every change of a queue
// pair ends with advance.

package transport

import (
	"sync"
	"sync/atomic"
)

// share is the bytes. It has its own lock, which is taken after a queue pair's; the ready list's comes after it.
type share struct {
	spent  atomic.Int64 // charges and turns
	window atomic.Int64 // the limit of spent
	length atomic.Int32 // of the line

	mu          sync.Mutex
	first, last *member // in line
}

// member is a queue pair's part in a share.
type member struct {
	of      *share
	qp      *QP
	charged int64        // bytes
	turn    atomic.Int64 // bytes left of its turn; 0 in line

	next *member // in line; guarded by the share's lock, like in
	in   bool
}

func (m *member) join(s *share, qp *QP) { m.of, m.qp = s, qp }

// leave gives the member's room back.
func (m *member) leave() {
	m.stop()
	m.settle(0)
	m.of = nil
}

// stop leaves the line and ends the turn.
func (m *member) stop() {
	s := m.of
	s.mu.Lock()
	s.remove(m)
	s.mu.Unlock()
	m.endTurn()
}

// waits reports whether the queue pair must wait before its next packet: it has no turn, and there is no room or
// others are in line. The queue pair is then in line.
func (m *member) waits() bool {
	if m.maySend() {
		return false
	}
	s := m.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.maySend() {
		return false // room came back meanwhile
	}
	if !m.in {
		m.in, m.next = true, nil
		if s.last == nil {
			s.first = m
		} else {
			s.last.next = m
		}
		s.last = m
		s.length.Add(1)
	}
	return true
}

func (m *member) maySend() bool {
	s := m.of
	return m.turn.Load() > 0 || s.length.Load() == 0 && s.spent.Load() < s.window.Load()
}

// hasTurn reports whether others are in line, and the member's turn lasts for another burst.
func (m *member) hasTurn() bool { return m.of.length.Load() > 0 && m.turn.Load() >= maxBurst }

// spend charges bytes to the share. It returns true if the room that is left must come back soon: there is none, or less than
// a turn. If ACKs may be few and the member holds most of what is spent, enough comes back with those that it has asked for.
func (m *member) spend(n int64) (last bool) {
	m.charged += n
	used := min(n, m.turn.Load())
	turn, window := m.turn.Add(-used), m.of.window.Load()
	left := window - m.of.spent.Add(n-used) + turn
	return left <= 0 || left < m.of.turn() && (!m.qp.mayAskLess() || 2*m.charged < window)
}

// packets returns how many packets of n bytes may be spent now, at most until one asks for an ACK.
func (m *member) packets(n int64) int64 {
	s, turn := m.of, m.turn.Load()
	left := s.window.Load() - s.spent.Load() + turn
	may := max(left, turn)
	if s.length.Load() > 0 {
		may = turn
	}
	if may = (may + n - 1) / n; m.qp.mayAskLess() {
		return may
	}
	return min(may, max(left-s.turn(), 0)/n+1)
}

// endTurn gives back what is left of a turn. A queue pair that has no more to send must call it, because the bytes
// of a turn count as spent.
func (m *member) endTurn() {
	if left := m.turn.Swap(0); left > 0 {
		m.of.spent.Add(-left)
	}
}

// keep gives back what is left of a turn, but for n bytes. The member is not in line.
func (m *member) keep(n int64) {
	if rest := m.turn.Load() - n; rest > 0 {
		m.turn.Add(-rest)
		m.of.spent.Add(-rest)
	}
}

// turn is how many bytes a queue pair sends before the next in line. Long bursts cost less. A small window is one turn,
// because each turn is at least one packet.
func (s *share) turn() int64 {
	if w := s.window.Load(); w > unprovenPacket {
		return w / 4
	}
	return s.window.Load()
}

// settle makes the charge what is due now. Others may then leave the line.
func (m *member) settle(due int64) {
	if due != m.charged {
		m.of.spent.Add(due - m.charged)
		m.charged = due
	}
	m.of.advance()
}

// advance puts queue pairs at the front of the line on the ready list, one per turn that there is room for. So if
// there is room for a turn and somebody is in line, the next one is on the ready list.
func (s *share) advance() {
	turn := s.turn()
	if s.length.Load() == 0 || s.spent.Load()+turn > s.window.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for room := s.window.Load() - s.spent.Load(); room >= turn && s.first != nil; room -= turn {
		next := s.first
		s.remove(next)
		s.spent.Add(turn)
		next.turn.Store(turn)
		next.qp.engine.ready.add(next.qp)
	}
}

// remove takes a member out of the line.
func (s *share) remove(m *member) {
	if !m.in {
		return
	}
	var before *member
	for q := s.first; q != m; q = q.next {
		before = q
	}
	if before == nil {
		s.first = m.next
	} else {
		before.next = m.next
	}
	if s.last == m {
		s.last = before
	}
	m.next, m.in = nil, false
	s.length.Add(-1)
}
