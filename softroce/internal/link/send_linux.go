// Sending on Linux. Mode Segmented is sendmmsg with GSO, Batched without it, and Plain sends one datagram per call.
//
// No call waits. If the socket's buffer is full, the kernel returns EAGAIN, and the rest stays in the Egress. The kernel
// returns ENOBUFS if a queue behind the socket is full: such a packet is lost.
//
// # Fallback from GSO
//
// The kernel refuses a burst with EIO or EINVAL if the path does not support GSO. It also
// refuses a burst that way if no packet of that size can be sent on the path. flush
// distinguishes the two: it sends the burst's packets one by one. If any packet is sent,
// the path does not support GSO, and the Socket stops using it to that address.

package link

import (
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

const (
	// sendMessages is the maximum number of messages of one sendmmsg.
	sendMessages = 64
	// sendBytes is the number of bytes after which a sendmmsg takes no further message: Go's collector waits for its end.
	sendBytes = 128 << 10
	// mostUnsplit is the number of addresses without GSO after which no address gets it.
	mostUnsplit = 8
)

// sendScratch is the memory that an Egress keeps for sending.
type sendScratch struct {
	many *outMessages // sendMessages of them
	one  *outMessages // one
}

// outMessages are the messages of one sendmmsg. Messages first to n-1 are not sent yet.
type outMessages struct {
	headers  []unix.Mmsghdr
	messages []message
	of       []int // the index of the burst of message i
	packets  []int // the number of packets of message i
	first, n int

	socket *Socket
	errno  unix.Errno // why the kernel did not take message first; 0: it took all
	calls  uint64
	flush  func(fd uintptr) bool // the method send; stored because a method value allocates
}

// use returns *t for a socket, with room for n messages. It makes them the first time.
func use(t **outMessages, n int, s *Socket) *outMessages {
	if *t == nil {
		made := &outMessages{headers: make([]unix.Mmsghdr, n), messages: make([]message, n), of: make([]int, n), packets: make([]int, n)}
		for i := range made.messages {
			made.messages[i].link(&made.headers[i].Hdr)
		}
		made.flush = made.send
		*t = made
	}
	(*t).socket, (*t).calls = s, 0
	return *t
}

// add appends a message with data, which has the given number of consecutive packets of
// burst i. segment is the packet size for GSO, or 0 for a single packet.
func (t *outMessages) add(i int, to Destination, data []byte, packets, segment int) {
	at := t.n
	t.n++
	m, h := &t.messages[at], &t.headers[at].Hdr
	m.setData(data)
	h.Namelen = m.setName(netip.AddrPortFrom(to.Addr, packet.Port), t.socket.scope)
	control := appendControl(m.control[:0], to, segment)
	h.SetControllen(len(control))
	t.of[at], t.packets[at] = i, packets
}

// send calls sendmmsg until the kernel has taken all messages, or does not take one.
func (t *outMessages) send(fd uintptr) (done bool) {
	for t.errno = 0; t.first < t.n && t.errno == 0; {
		var sent int
		sent, t.errno = t.socket.system.sendmmsg(fd, t.headers[t.first:t.callEnd()])
		t.calls++
		switch t.errno {
		case 0:
			t.first += sent
		case unix.EINTR:
			t.errno = 0
		}
	}
	return true
}

// callEnd returns the end of the messages of the next call.
func (t *outMessages) callEnd() int {
	end := t.first
	for bytes := 0; end < t.n && bytes < sendBytes; end++ {
		bytes += int(t.messages[end].iov.Len)
	}
	return end
}

// send sends bursts of e from o, as far as o has room. It adds refused packets to *report. The error is
// net.ErrClosed.
func (s *Socket) send(o *outlet, e *Egress, bursts []burst, report **SendError) error {
	mode, t, most := Mode(s.sendMode.Load()), &e.sys.many, sendMessages
	if mode == Plain {
		t, most = &e.sys.one, 1
	}
	_, err := s.sendWith(use(t, most, s), o, e, bursts, mode == Segmented, report)
	return err
}

// sendWith is send with the messages of t. segmented reports whether to use GSO. It returns the number of packets sent.
func (s *Socket) sendWith(t *outMessages, o *outlet, e *Egress, bursts []burst, segmented bool, report **SendError) (sent int, err error) {
	tap, full := s.tap.load(), false
	for next, within := 0, bursts[0].done; next < len(bursts) && !full && err == nil; {
		t.first, t.n = 0, 0
		for next < len(bursts) && t.n < len(t.headers) {
			b := &bursts[next]
			how := sealedAlone
			if segmented && b.left() > 1 && b.done == 0 && s.splits(b.to.Addr) {
				how = sealedSplit
			}
			switch bad := e.seal(b, o.local, how, tap); {
			case bad != nil:
				lost(report, b.to.Addr, b.left(), bad)
				within, b.done = b.packets, b.packets
			case how == sealedSplit:
				t.add(next, b.to, b.data, b.packets, b.size)
				within = b.packets
			default:
				t.add(next, b.to, b.packet(within), 1, 0)
				within++
			}
			if within == b.packets {
				if next++; next < len(bursts) {
					within = bursts[next].done
				}
			}
		}
		var n int
		n, full, err = s.flush(t, o, e, bursts, report)
		sent += n
	}
	s.counters.sent(0, 0, 0, t.calls)
	return sent, err
}

// flush sends all messages of t except those that the system refuses. It stops if o is full. It returns the number of packets sent.
func (s *Socket) flush(t *outMessages, o *outlet, e *Egress, bursts []burst, report **SendError) (sent int, full bool, err error) {
	var bytes, several uint64
	for begin := 0; t.first < t.n && !full && err == nil; begin = t.first {
		if o.conn.Write(t.flush) != nil {
			return sent, false, net.ErrClosed
		}
		for i := begin; i < t.first; i++ {
			bursts[t.of[i]].done += t.packets[i]
			sent += t.packets[i]
			bytes += uint64(t.headers[i].Len)
			if t.packets[i] > 1 {
				several++
			}
		}
		switch t.errno {
		case 0:
		case unix.EAGAIN:
			full = true
		default:
			full, err = s.refused(t, o, e, bursts, report)
		}
	}
	s.counters.sent(uint64(sent), bytes, several, 0)
	return sent, full, err
}

// refused handles the first message of t that is left, which the kernel refused.
func (s *Socket) refused(t *outMessages, o *outlet, e *Egress, bursts []burst, report **SendError) (full bool, err error) {
	i := t.first
	t.first++
	b := &bursts[t.of[i]]
	if t.packets[i] > 1 && (t.errno == unix.EIO || t.errno == unix.EINVAL) { // see "Fallback from GSO" above
		sent, err := s.sendWith(use(&e.sys.one, 1, s), o, e, bursts[t.of[i]:t.of[i]+1], false, report)
		if sent > 0 {
			s.fallBack(b.to.Addr, t.errno)
		}
		return b.left() > 0, err
	}
	lost(report, b.to.Addr, t.packets[i], t.errno)
	b.done += t.packets[i]
	return false, nil
}

// splits reports whether GSO may be used to an address.
func (s *Socket) splits(to netip.Addr) bool {
	unsplit := s.unsplit.Load()
	return unsplit == nil || !slices.Contains(*unsplit, to)
}

// fallBack turns GSO to an address off, or, if there are many, to all, for the rest of the Socket's life.
func (s *Socket) fallBack(to netip.Addr, err error) {
	s.counters.add(Fallbacks, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	var unsplit []netip.Addr
	if before := s.unsplit.Load(); before != nil {
		unsplit = *before
	}
	switch {
	case slices.Contains(unsplit, to):
	case len(unsplit) < mostUnsplit:
		unsplit = append(slices.Clone(unsplit), to)
		s.unsplit.Store(&unsplit)
		s.note("the kernel refused GSO to %v (%v): sending with sendmmsg there now", to, err)
	case s.sendMode.CompareAndSwap(uint32(Segmented), uint32(Batched)):
		s.note("the kernel refused GSO to more than %d addresses: sending with sendmmsg to all", mostUnsplit)
	}
}

// AwaitRoom implements Link.
func (s *Socket) AwaitRoom(source uint16) error {
	return closed(s.outletOf(source).conn.Write(hasRoom))
}

// hasRoom reports whether a socket has room. It also returns true if the system does not say.
func hasRoom(fd uintptr) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
	return n != 0
}
