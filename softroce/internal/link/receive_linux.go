// Receiving on Linux. Mode Segmented is recvmmsg with GRO, Batched without it, and Plain receives one datagram per call.
//
// # Buffer sizes
//
// With GRO each message needs 64 KiB, because the kernel joins datagrams. While datagrams
// are large, one call takes only two, so that their bytes are still in the processor's
// cache when the ICRCs are checked. If the last call returned one small datagram, the
// first call after a wait takes only one: recvmsg costs less than recvmmsg.

package link

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Sizes of the messages of one recvmmsg.
const (
	// With GRO: joinedMessages messages of joinedSize bytes.
	joinedMessages = 16
	joinedSize     = 1 << 16
	// joinedFew is the number of messages per call while datagrams are larger than
	// joinedLarge bytes on average.
	joinedFew   = 2
	joinedLarge = joinedSize / 8
	// loneSize: after a single datagram of fewer bytes, the next wait expects one
	// datagram only.
	loneSize = 1024
	// ahead is the number of bytes before each datagram. With them, the payload behind a BTH alone is aligned to 8
	// bytes. Processors copy it to aligned memory up to twice as fast.
	ahead = 4
	// Without GRO: singleMessages messages of singleSize bytes. singleSize is more than
	// the longest packet, so that a longer datagram is noticed.
	singleMessages = 64
	singleSize     = (ahead + packet.MaxPacket + 1 + 63) &^ 63
)

// receiveScratch is the memory that an Ingress keeps for receiving, by mode.
type receiveScratch [Segmented + 1]*inMessages

// inMessages are the messages of one recvmmsg.
type inMessages struct {
	buf      []byte
	size     int // bytes of buf per message
	headers  []unix.Mmsghdr
	messages []message
	used     int // headers that the last call changed
	next     int // messages that the next call may return
	lone     int // messages that the next call may return if it waits first

	socket  *Socket
	errno   unix.Errno
	emptied bool // a call since the last check found the socket empty
	receive func(fd uintptr) bool
}

func newInMessages(n, size int) *inMessages {
	t := &inMessages{
		buf: make([]byte, n*size), size: size,
		headers: make([]unix.Mmsghdr, n), messages: make([]message, n), used: n, next: n, lone: n,
	}
	for i := range t.messages {
		t.messages[i].link(&t.headers[i].Hdr)
		t.messages[i].setData(t.data(i))
	}
	t.receive = t.tryReceive
	return t
}

// data returns the memory of message i.
func (t *inMessages) data(i int) []byte { return t.buf[i*t.size+ahead : (i+1)*t.size] }

// tryReceive calls recvmmsg. The poller calls it at once and whenever datagrams arrive.
func (t *inMessages) tryReceive(fd uintptr) (done bool) {
	for i := range t.headers[:t.used] {
		h := &t.headers[i].Hdr
		h.Namelen = uint32(unsafe.Sizeof(t.messages[i].name))
		h.SetControllen(controlSpace)
		h.Flags = 0
	}
	t.used = 0
	for {
		n, errno := t.socket.system.recvmmsg(fd, t.headers[:t.next])
		switch errno {
		case 0:
			t.used = n
			return true
		case unix.EINTR:
		case unix.EAGAIN:
			t.next, t.emptied = t.lone, true
			return false
		default:
			t.errno = errno
			return true
		}
	}
}

// receive waits for datagrams, receives all that have arrived and checks them.
func (s *Socket) receive(in *Ingress, counts *Counters) error {
	t := in.messagesFor(s)
	if err := s.conn.Read(t.receive); err != nil {
		return closed(err)
	}
	return s.check(in, t, counts)
}

// Trying returns a function that receives as l.Receive does, but does not wait: it returns
// ErrInterrupted if nothing has arrived. If only bad packets have, it returns nil and leaves none in
// Packets. Trying returns nil if the link must wait. Interrupt does not concern the function.
func Trying(l Link) func(in *Ingress) error {
	s, ok := l.(*Socket)
	if !ok || Mode(s.sendMode.Load()) == Plain || Mode(s.receiveMode.Load()) == Plain {
		return nil
	}
	return s.try
}

// Unread reports whether datagrams lie in a link's socket.
func Unread(l Link) bool {
	s, ok := l.(*Socket)
	if !ok {
		return false
	}
	n := 0
	_ = s.conn.Control(func(fd uintptr) { n, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0) }) // closed: nothing
	return n > 0
}

// Interrupted reports whether the next Receive of a link with Trying's function will return ErrInterrupted. It may
// return true too long.
func Interrupted(l Link) bool {
	s, ok := l.(*Socket)
	return ok && s.interrupted.Load()
}

// Yield lets another thread run on this processor. A goroutine that polls calls it when nothing has arrived: the sender
// often waits for the same one.
func Yield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// try is the function of Trying.
func (s *Socket) try(in *Ingress) error {
	in.Packets = in.Packets[:0]
	t := in.messagesFor(s)
	done, err := s.conn.TryRead(t.receive)
	if err != nil {
		return closed(err)
	}
	if !done {
		return ErrInterrupted
	}
	var counts Counters
	err = s.check(in, t, &counts)
	s.counters.received(&counts)
	return err
}

// check checks the datagrams of t, and takes the good packets into in.
func (s *Socket) check(in *Ingress, t *inMessages, counts *Counters) error {
	joined := t.size == joinedSize
	if t.errno != 0 {
		return closed(t.errno)
	}
	in.Emptied = in.Emptied || t.emptied || t.used < t.next
	bytes := 0
	tap, zone := s.tap.load(), s.local.Addr().Zone()
	for i := range t.headers[:t.used] {
		h, m := &t.headers[i], &t.messages[i]
		if h.Hdr.Flags&unix.MSG_TRUNC != 0 || !joined && int(h.Len) > packet.MaxPacket {
			counts[DropTruncated]++
			continue
		}
		bytes += int(h.Len)
		d := datagram{data: t.data(i)[:h.Len], src: m.address(zone)}
		d.parse(m.control[:h.Hdr.Controllen])
		if d.size != 0 && d.size < len(d.data) {
			counts[ReceivedBursts]++
		}
		in.take(d, s.local, tap, counts)
	}
	t.next, t.emptied = len(t.headers), false
	if joined && bytes > joinedLarge*t.used {
		t.next = joinedFew
	}
	t.lone = t.next
	if t.used == 1 && bytes < loneSize {
		t.lone = 1
	}
	return nil
}

// messagesFor returns the messages for a receive of s. It makes them the first time.
func (in *Ingress) messagesFor(s *Socket) *inMessages {
	t := &in.sys[s.receiveMode.Load()]
	if *t == nil {
		switch Mode(s.receiveMode.Load()) {
		case Plain:
			*t = newInMessages(1, singleSize)
		case Batched:
			*t = newInMessages(singleMessages, singleSize)
		case Segmented:
			*t = newInMessages(joinedMessages, joinedSize)
		}
	}
	(*t).socket, (*t).errno = s, 0
	return *t
}
