// A server's objects, which all of its connections share.

package rc

import (
	"cmp"
	"context"
	stderrors "errors"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// ServerConfig holds the choices for a server. Exchange, Job, Program and Params stay unset.
type ServerConfig struct {
	Config                  // of each Conn; Timeout also limits the steps after a client's hello together
	MaxConns int            // clients at a time, others are refused; 0 is 64
	Grace    time.Duration  // time for handlers to return, and for clients to finish, when Serve's context has ended; 0 is 5 s, less than 0 no time
	Unread   func(verbs.WC) // gets receives of the SRQ that a closed Conn left, see Server.SRQ; nil drops them
}

// Server has a domain, completion queues for MaxConns clients, memory and, with Config.SRQ, an SRQ
// that all its Conns share. [NewServer] makes it; it is valid until Close. Its methods may be
// called by several goroutines at once.
//
// Config.Prepare runs for each client; it shares regions of the Server or of the Conn. A memory
// window of type 2 binds a shared region to the client's queue pair, so its key works for no
// other client. With several QPs, or a device without such windows, each Conn has its own domain:
// there is no SRQ, and requests need memory of Conn.AllocMR or Conn.RegMR.
type Server struct {
	resources
	conf      ServerConfig
	separate  bool // each Conn has a domain of its own
	sends     *dispatch.Dispatcher
	recvs     *dispatch.Dispatcher // with OneCQ the same as sends
	admission *admission.Controller

	strangers event.Sample // whose failures are logged

	ctx        context.Context // ends when the device is gone or a queue of the server is lost
	cancel     context.CancelCauseFunc
	stopEvents func()

	mu      sync.Mutex
	serving int // calls of Serve in progress
	closed  bool
}

const (
	defaultMaxConns = 64
	defaultGrace    = 5 * time.Second
)

// NewServer makes a Server. The errors are those of [Config.Check] and verbs.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.checkUnused(true); err != nil {
		return nil, err
	}
	switch {
	case cfg.Exchange != nil:
		return nil, errors.New("rc: Config.Exchange is set, and a Server speaks the native protocol; try: Listen and Connect")
	case cfg.MaxConns < 0:
		return nil, errors.Errorf("rc: MaxConns is %d; try: 1 or more", cfg.MaxConns)
	}
	cfg.Config = cfg.complete()
	cfg.MaxConns, cfg.Grace = cmp.Or(cfg.MaxConns, defaultMaxConns), cmp.Or(cfg.Grace, defaultGrace)
	s := &Server{resources: resources{cfg: cfg.Config, conns: cfg.MaxConns, events: newEvents(cfg.Logger)}, conf: cfg,
		admission: admission.New(admission.Limits{Clients: cfg.MaxConns, Waiting: admission.Waiting, Patience: admission.Patience}), stopEvents: func() {}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if err := s.make(); err != nil {
		return nil, stderrors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) make() error {
	if err := s.openDevice(); err != nil {
		return err
	}
	found, err := s.cfg.inspect(s.dev, s.conns)
	if err != nil {
		return err
	}
	windows := s.cfg.QPs == 1 && found.device.CapFlags&verbs.CapMemWindowType2B != 0
	s.separate = s.cfg.Type != verbs.UD && !windows
	if s.separate && s.cfg.SRQ != nil {
		return errors.Errorf("rc: Config.SRQ is set, and each Conn needs a protection domain of its own, because of %d queue pairs, or because %s has no memory windows of type 2B; try: no SRQ", s.cfg.QPs, s.dev.Name())
	}
	if err := s.makePD(); err != nil {
		return err
	}
	if err := s.makeQueues(found.device.MaxCQE); err != nil {
		return err
	}
	s.sends, s.recvs = s.dispatchers()
	s.stopEvents = s.dev.Subscribe(func(e verbs.AsyncEvent) {
		if e.Fatal() && s.concerns(e, func(uint32) bool { return false }) {
			s.cancel(&AsyncError{Device: s.dev.Name(), Event: e})
		}
	})
	return nil
}

// binds reports whether only windows open regions to a peer.
func (s *Server) binds() bool { return !s.separate && s.cfg.Type != verbs.UD }

// SRQ returns the queue of receives for all Conns; nil without Config.SRQ. The program posts each
// receive again after its completion, failed or not: those that WaitRecv and WaitRecvs return, and
// those that Unread gets because their Conn closed before. With OneCQ a failed completion may be
// a send's: give sends other IDs than receives.
func (s *Server) SRQ() *verbs.SRQ { return s.srq }

// AllocMR allocates and registers size bytes for all Conns, until Close. The remote rights are for
// clients that the region is shared with. The errors are those of [verbs.PD.AllocMR].
func (s *Server) AllocMR(name string, size int, access verbs.Access) (*verbs.MR, error) {
	return s.register(name, access, s.binds(), func(access verbs.Access) (*verbs.MR, error) { return s.pd.AllocMR(size, access) })
}

// RegMR registers the caller's memory for all Conns, until Close; see AllocMR.
func (s *Server) RegMR(name string, buf []byte, access verbs.Access) (*verbs.MR, error) {
	return s.register(name, access, s.binds(), func(access verbs.Access) (*verbs.MR, error) { return s.pd.RegMR(buf, access) })
}

// Close frees everything. The error is EBUSY while Serve runs. It is also EBUSY if objects of the
// program are left in the domain: close these and call Close again.
func (s *Server) Close() error {
	if s == nil || s.cancel == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving > 0 {
		return errors.WithMessage(syscall.EBUSY, "rc: Close of a server that serves; try: end Serve's context, and wait for Serve")
	}
	s.closed = true
	s.stopEvents()
	s.cancel(errServerClosed)
	return stderrors.Join(s.free()...)
}

// begin counts a call of Serve. It returns false after Close.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.serving++
	}
	return !s.closed
}

func (s *Server) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving--
}

// useServer takes the server's objects.
func (c *Conn) useServer(s *Server) error {
	c.channel, c.sendCQ, c.recvCQ, c.srq = s.channel, s.sendCQ, s.recvCQ, s.srq
	c.makeRoutes(s.sends, s.recvs)
	if s.separate {
		return c.makePD()
	}
	c.pd = s.pd
	return nil
}
