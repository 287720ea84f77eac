// Modes Segmented and Batched of sending: sendmmsg with and without GSO.
//
// # Fallback from GSO
//
// The kernel refuses a burst with EIO or EINVAL if the path does not support GSO. It also
// refuses a burst that way if no packet of that size can be sent on the path. flush
// distinguishes the two: it sends the burst's packets one by one. If any packet is sent,
// the path does not support GSO, and the Socket stops using GSO.

package link

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// sendMessages is the maximum number of messages of one sendmmsg.
const sendMessages = 64

// sendScratch is the memory that an Egress keeps for sending.
type sendScratch struct {
	many  *outMessages
	plain [controlSpace]byte
}

// plainControl returns the control messages of a packet that is sent alone.
func (t *sendScratch) plainControl(to Destination) []byte {
	return appendControl(t.plain[:0], to, 0)
}

// outMessages are the messages of one sendmmsg. Messages first to n-1 are not sent yet.
type outMessages struct {
	headers  [sendMessages]unix.Mmsghdr
	messages [sendMessages]message
	of       [sendMessages]*burst // the burst of message i
	packets  [sendMessages]int    // the number of packets of message i
	first, n int

	socket *Socket
	errno  unix.Errno // why the kernel refused message first; 0: not refused
	calls  uint64
	flush  func(fd uintptr) bool // the method send; stored because a method value allocates
}

func newOutMessages() *outMessages {
	t := new(outMessages)
	for i := range t.messages {
		t.messages[i].link(&t.headers[i].Hdr)
	}
	t.flush = t.send
	return t
}

// add appends a message with data, which has the given number of consecutive packets of
// b. segment is the packet size for GSO, or 0 for a single packet.
func (t *outMessages) add(b *burst, data []byte, packets, segment int) {
	i := t.n
	t.n++
	m, h := &t.messages[i], &t.headers[i].Hdr
	m.setData(data)
	h.Namelen = m.setName(netip.AddrPortFrom(b.to.Addr, packet.Port), t.socket.scope)
	control := appendControl(m.control[:0], b.to, segment)
	h.SetControllen(len(control))
	t.of[i], t.packets[i] = b, packets
}

// send calls sendmmsg. The poller calls it at once and whenever the socket has room again.
func (t *outMessages) send(fd uintptr) (done bool) {
	for t.first < t.n {
		sent, errno := t.socket.system.sendmmsg(fd, t.headers[t.first:t.n])
		t.calls++
		switch errno {
		case 0:
			t.first += sent
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			t.errno = errno
			return true
		}
	}
	return true
}

// send sends bursts of e from o. It adds refused packets to *report. The error is
// net.ErrClosed.
func (s *Socket) send(o *outlet, e *Egress, bursts []burst, report **SendError) error {
	switch Mode(s.sendMode.Load()) {
	case Segmented:
		return s.sendMany(o, e, bursts, true, report)
	case Batched:
		return s.sendMany(o, e, bursts, false, report)
	}
	return s.sendEach(o, e, bursts, report)
}

// sendMany is send with sendmmsg. segmented reports whether to use GSO.
func (s *Socket) sendMany(o *outlet, e *Egress, bursts []burst, segmented bool, report **SendError) error {
	t := e.sys.many
	if t == nil {
		t = newOutMessages()
		e.sys.many = t
	}
	t.socket, t.calls = s, 0
	tap := loadTap(&s.tap)
	for next, within := 0, 0; next < len(bursts); {
		t.first, t.n = 0, 0
		for next < len(bursts) && t.n < sendMessages {
			b := &bursts[next]
			if within == 0 {
				if err := e.seal(b, o.local, segmented, tap); err != nil {
					lost(report, b.to.Addr, b.packets, err)
					next++
					continue
				}
			}
			switch {
			case !segmented:
				t.add(b, b.packet(within), 1, 0)
				within++
			case b.packets == 1:
				t.add(b, b.packet(0), 1, 0)
				within = 1
			default:
				t.add(b, b.data, b.packets, b.size)
				within = b.packets
			}
			if within == b.packets {
				next, within = next+1, 0
			}
		}
		if err := s.flush(o, e, t, report); err != nil {
			return err
		}
	}
	s.counters.sent(0, 0, 0, t.calls)
	return nil
}

// flush sends all messages of t except those that the system refuses.
func (s *Socket) flush(o *outlet, e *Egress, t *outMessages, report **SendError) error {
	var packets, bytes, bursts uint64
	for begin := 0; t.first < t.n; begin = t.first {
		t.errno = 0
		if o.raw.Write(t.flush) != nil {
			return net.ErrClosed
		}
		for i := begin; i < t.first; i++ {
			packets += uint64(t.packets[i])
			bytes += uint64(t.headers[i].Len)
			if t.packets[i] > 1 {
				bursts++
			}
		}
		if t.errno == 0 {
			continue
		}
		i := t.first
		t.first++
		b := t.of[i]
		if t.packets[i] == 1 || t.errno != unix.EIO && t.errno != unix.EINVAL {
			lost(report, b.to.Addr, t.packets[i], t.errno)
			continue
		}
		// See "Fallback from GSO" above.
		sent, err := s.sendPlain(o, e, b, report)
		if err != nil {
			return err
		}
		if sent > 0 {
			s.fallBack(b.to.Addr, t.errno)
		}
	}
	s.counters.sent(packets, bytes, bursts, 0)
	return nil
}

// fallBack turns GSO off for the rest of the Socket's life.
func (s *Socket) fallBack(to netip.Addr, err error) {
	add(&s.counters.fallbacks, 1)
	if s.sendMode.CompareAndSwap(uint32(Segmented), uint32(Batched)) {
		s.note("the kernel refused GSO to %v (%v): sending with sendmmsg now", to, err)
	}
}
