// This file sends by sendmmsg: bursts that the kernel cuts up by GSO, or packets.

package link

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// sendMessages is how many messages one sendmmsg gets.
const sendMessages = 64

// sendScratch is what an Egress keeps for sending.
type sendScratch struct {
	many  *outMessages
	plain [controlSpace]byte
}

// plainControl returns the control messages of a datagram sent alone.
func (t *sendScratch) plainControl(to Destination) []byte {
	return appendControl(t.plain[:0], to, 0)
}

// outMessages are the messages of one sendmmsg. Those of [first, n) are still to
// be sent.
type outMessages struct {
	headers  [sendMessages]unix.Mmsghdr
	messages [sendMessages]message
	of       [sendMessages]*burst // what message i is of
	packets  [sendMessages]int    // how many
	first, n int

	socket *Socket
	errno  unix.Errno // why message first was not sent, 0 if it may be yet
	calls  uint64
	flush  func(fd uintptr) bool // sends all; made once, since each making allocates
}

func newOutMessages() *outMessages {
	t := new(outMessages)
	for i := range t.messages {
		t.messages[i].link(&t.headers[i].Hdr)
	}
	t.flush = t.send
	return t
}

// add makes packets bytes, from consecutive packets of b, the next message. segment
// is 0 if it is one packet.
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

// send is called by the poller, at once and whenever there is room again.
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

// send sends all bursts of e. Packets that the system refuses are reported; the
// error is net.ErrClosed.
func (s *Socket) send(e *Egress, report **SendError) error {
	switch Mode(s.sendMode.Load()) {
	case Segmented:
		return s.sendMany(e, true, report)
	case Batched:
		return s.sendMany(e, false, report)
	}
	return s.sendEach(e, report)
}

// sendMany is send by sendmmsg, with GSO (segmented) or without.
func (s *Socket) sendMany(e *Egress, segmented bool, report **SendError) error {
	t := e.sys.many
	if t == nil {
		t = newOutMessages()
		e.sys.many = t
	}
	t.socket, t.calls = s, 0
	tap := loadTap(&s.tap)
	for next, within := 0, 0; next < len(e.bursts); {
		t.first, t.n = 0, 0
		for next < len(e.bursts) && t.n < sendMessages {
			b := &e.bursts[next]
			if within == 0 {
				if err := e.seal(b, s.local, segmented, tap); err != nil {
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
		if err := s.flush(e, t, report); err != nil {
			return err
		}
	}
	s.counters.sent(0, 0, 0, t.calls)
	return nil
}

// flush sends the messages of t, all of them but what is refused.
func (s *Socket) flush(e *Egress, t *outMessages, report **SendError) error {
	var packets, bytes, bursts uint64
	for begin := 0; t.first < t.n; begin = t.first {
		t.errno = 0
		if s.raw.Write(t.flush) != nil {
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
		// The kernel does not cut up bursts on this path, or no packet of that
		// size goes there at all: one by one tells which.
		sent, err := s.sendPlain(e, b, report)
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

// fallBack leaves GSO for good.
func (s *Socket) fallBack(to netip.Addr, err error) {
	add(&s.counters.fallbacks, 1)
	if s.sendMode.CompareAndSwap(uint32(Segmented), uint32(Batched)) {
		s.note("the kernel refused GSO to %v (%v): sending by sendmmsg now", to, err)
	}
}
