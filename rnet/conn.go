// A connection: its state, and what it reports about itself.

package rnet

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/internal/sync/turn"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Conn is a [net.Conn] over a queue pair. Dialer.DialContext and Listener.Accept make it. All its
// methods may be called by several goroutines at once.
type Conn struct {
	rc            *rc.Conn
	local, remote *Addr
	cfg           Config
	free          func() // frees the device, if this Conn opened it

	staging *verbs.MR // the program's bytes on their way to the peer's ring
	ring    *verbs.MR // the peer's bytes
	peer    oob.Region

	reads  sync.Mutex // held by one Read at a time
	writes sync.Mutex // held by one Write, ReadFrom or WriteBuffers at a time

	completions completions
	turn        *turn.Turn // of the completions; its mutex guards what follows
	flow        flow
	onTheWay    int    // requests that have not completed
	taken       int    // receives that have completed and are not posted again
	lent        uint64 // bytes of the ring that Read is copying without turn
	wantFIN     bool   // the program writes no more
	sentFIN     bool
	readEnded   bool // CloseRead: arriving bytes are dropped
	reset       bool // the peer gets RST; what is not posted is dropped
	sentRST     bool
	closed      bool
	late        bool  // Close has waited long enough
	toTheEnd    bool  // the closer waits for the FIN, not only for what is on its way
	gone        bool  // rc has noticed the end of the peer or of the device
	err         error // of all later operations
	stats       Stats

	readDeadline, writeDeadline deadline
	linger                      time.Duration // see SetLinger
	alive                       keepAlive

	// See wait.go.
	reader, writer, flusher, closer, background waiter
	waiters                                     [5]*waiter // these five

	// See progress.go.
	progressing bool // its goroutine runs
	watch       *time.Timer
	watching    bool   // the timer runs
	watched     uint64 // flow.posted at its last look

	// Reused, so that nothing is allocated per message.
	wrs   [runPackets]verbs.SendWR
	sges  [runPackets]verbs.SGE
	recvs [recvBatch]verbs.RecvWR

	ended chan struct{} // closed when everything is freed
}

// newConn makes a Conn in rc.Config.Prepare: its ring, and the receives for the peer's messages.
func newConn(c *rc.Conn, cfg Config, t terms) (*Conn, error) {
	n := &Conn{rc: c, completions: c.Completions(), cfg: cfg, flow: flow{terms: t}, linger: cfg.Linger, ended: make(chan struct{})}
	n.init()
	var err error
	if n.ring, err = c.AllocMR(ringName, int(t.ring), verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return nil, err
	}
	c.Share(ringName, n.ring)
	return n, c.QP().PostRecv(make([]verbs.RecvWR, receives))
}

// init makes the mutex, the waiters and the timer.
func (c *Conn) init() {
	c.turn = c.completions.Turn()
	c.reader, c.writer, c.flusher, c.closer, c.background = newWaiter(c.readReady), newWaiter(c.writeReady), newWaiter(c.flushReady), newWaiter(c.closeReady), newWaiter(func() (bool, error) { return c.progresses(), nil })
	c.waiters = [5]*waiter{&c.reader, &c.writer, &c.flusher, &c.closer, &c.background}
	c.watch = c.newWatch()
}

// open begins the life of a Conn whose queue pairs are in RTS.
func (c *Conn) open() {
	hello := c.rc.TCP()
	qp, peer := c.rc.LocalEndpoints()[0], c.rc.PeerEndpoints()[0]
	mtu := min(qp.MTU, peer.MTU)
	if run := c.rc.Device().Run(mtu); run > 0 {
		c.flow.packet, c.flow.run = uint64(mtu), uint64(run)
	}
	c.local = &Addr{Host: hello.LocalAddr().String(), Device: c.rc.Device().Name(), GID: verbs.GID(qp.GID), QPN: qp.QPN}
	c.remote = &Addr{Host: hello.RemoteAddr().String(), GID: verbs.GID(peer.GID), QPN: peer.QPN}
	context.AfterFunc(c.rc.Context(), func() {
		c.turn.Lock()
		defer c.turn.Unlock()
		c.gone = true
		c.ensureProgress()
	})
	c.completions.Handle(c.take)
	c.turn.Lock()
	c.keepAlive()
	c.turn.Unlock()
	c.announce(StateOpen)
}

// Addr is the address of one end of a Conn, or of a Listener.
type Addr struct {
	Host   string    // host and port of the exchange over TCP
	Device string    // name of the device; "" for the peer's and a Listener's
	GID    verbs.GID // of the queue pair; zero for a Listener
	QPN    uint32    // number of the queue pair; 0 for a Listener
}

// Network returns "rdma".
func (*Addr) Network() string { return network }

// String returns Host, which net.SplitHostPort accepts, as it does for TCP addresses.
func (a *Addr) String() string { return a.Host }

const network = "rdma"

// LocalAddr returns this end's address, an [*Addr].
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address, an [*Addr].
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Stats are the counts of a Conn since it was made.
type Stats struct {
	BytesRead, BytesWritten            uint64 // by the program
	MessagesSent, MessagesReceived     uint64 // with data; small writes share a message
	ReportsSent, ReportsReceived       uint64 // control messages
	WaitsForSpace                      uint64 // writes that waited because the peer had not read
	PostedBytes, UnreadBytes, RingSize uint64 // on their way or unread at the peer; unread here; the limit of each
}

// Stats returns the counts, also after Close.
func (c *Conn) Stats() Stats {
	c.turn.Lock()
	defer c.turn.Unlock()
	s := c.stats
	s.PostedBytes, s.UnreadBytes, s.RingSize = c.flow.written-c.flow.freed, c.flow.arrived-c.flow.consumed, c.flow.ring
	return s
}

// A ConnState is a stage in the life of a Conn.
type ConnState int

// The stages that Config.ConnState is called with.
const (
	StateOpen   ConnState = iota // data can flow
	StateClosed                  // everything is freed; Stats has the final counts
)

// String returns "open" or "closed".
func (s ConnState) String() string {
	if s == StateOpen {
		return "open"
	}
	return "closed"
}

func (c *Conn) announce(s ConnState) {
	if c.cfg.ConnState != nil {
		c.cfg.ConnState(c, s)
	}
	c.cfg.Logger.Debug("rnet connection "+s.String(), slog.Any("local", c.local), slog.Any("remote", c.remote))
}

// opError wraps the error of an operation as package net does.
func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: network, Source: c.local, Addr: c.remote, Err: err}
}
