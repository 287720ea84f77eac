package room

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

const (
	// patience limits the wait for a receiver that takes nothing: it may be stopped.
	patience = time.Second
	// strangerFor is how long an address counts as not on this host.
	strangerFor = time.Second
	// maxReceivers limits the memory that a sender to many addresses needs.
	maxReceivers = 1024
)

// Receivers are the receivers to which a link has sent over UC or UD. Several goroutines may use it.
type Receivers struct {
	buffer  int          // bytes of the kernel's memory that may be in use at a receiver's socket
	sockets int          // of each receiver, at most
	planned atomic.Int32 // number of receivers whose planned is true

	mu     sync.Mutex
	fd     int // a netlink socket; -1: there is none
	byAddr map[netip.Addr]*receiver
	buf    [512]byte
}

// receiver is the state of one receiver. Sizes are bytes of the kernel's memory.
type receiver struct {
	addr      netip.Addr
	device    uint32   // index of the interface, for link-local addresses
	sockets   []socket // see ask.go
	queued    int      // waited at the receiver's fullest socket when the kernel was asked
	sent      int      // allowed since then
	planned   bool     // a part of sent may not have left this process yet
	stranger  time.Time
	fullSince time.Time
}

// New returns Receivers for an address that receives with some sockets. buffer is the size of each one's receive buffer in
// bytes, from Status of package link. Receivers assumes that the other receivers' buffers have the same size, and that they
// have no more sockets. The kernel allows twice as much, so half of a buffer stays free for senders that look at the same
// time.
func New(buffer, sockets int) *Receivers {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		fd = -1 // a sandbox: no receiver is known
	}
	return &Receivers{buffer: buffer, sockets: sockets, fd: fd, byAddr: make(map[netip.Addr]*receiver)}
}

// Close makes all receivers unknown.
func (rs *Receivers) Close() {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.fd >= 0 {
		unix.Close(rs.fd)
	}
	rs.fd = -1
}

// Full reports whether a receiver has no room for a burst of size bytes. If it has, the caller
// sends the burst and then calls Sent.
func (rs *Receivers) Full(to netip.Addr, size int) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.fd < 0 || to.IsMulticast() {
		return false
	}
	r := rs.receiver(to)
	if !r.stranger.IsZero() && time.Since(r.stranger) < strangerFor {
		return false
	}
	// A datagram may lie in a buffer of twice its size, and has a header in the kernel.
	cost := size + min(size, packet.MaxPacket) + 1280
	if r.queued+r.sent+cost > rs.buffer {
		if r.planned && !r.waitedLong() {
			return true // the kernel does not know about these packets yet
		}
		rs.sent(r) // if planned, the burst was never sent: its request failed
		queued, ok := rs.queued(r)
		if !ok {
			r.stranger = time.Now()
			return false
		}
		r.queued, r.sent, r.stranger = queued, 0, time.Time{}
	}
	if r.queued > 0 && r.queued+r.sent+cost > rs.buffer {
		return !r.waitedLong()
	}
	r.sent += cost
	r.fullSince = time.Time{}
	if !r.planned {
		r.planned = true
		rs.planned.Add(1)
	}
	return false
}

// Unread reports whether packets wait at a receiver on this host, unread.
func (rs *Receivers) Unread(at netip.Addr) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.fd < 0 {
		return false
	}
	queued, ok := rs.queued(rs.receiver(at))
	return ok && queued > 0
}

// receiver returns the entry of an address. The kernel must be asked about a new one.
func (rs *Receivers) receiver(a netip.Addr) *receiver {
	r := rs.byAddr[a]
	if r != nil {
		return r
	}
	if len(rs.byAddr) >= maxReceivers {
		clear(rs.byAddr)
		rs.planned.Store(0)
	}
	r = &receiver{addr: a, sent: rs.buffer}
	if ifi, err := net.InterfaceByName(a.Zone()); err == nil {
		r.device = uint32(ifi.Index)
	}
	rs.byAddr[a] = r
	return r
}

// Sent notes that everything that Full has allowed for a receiver is sent. It is cheap if Full has
// allowed nothing.
func (rs *Receivers) Sent(to netip.Addr) {
	if rs.planned.Load() == 0 {
		return // the usual case: RC
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.byAddr[to]; r != nil {
		rs.sent(r)
	}
}

func (rs *Receivers) sent(r *receiver) {
	if r.planned {
		r.planned = false
		rs.planned.Add(-1)
	}
}

// waitedLong notes that the receiver is full, and reports whether it has been for too long.
func (r *receiver) waitedLong() bool {
	if r.fullSince.IsZero() {
		r.fullSince = time.Now()
	}
	return time.Since(r.fullSince) >= patience
}
