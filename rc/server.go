// A server's objects: made once, for all of its connections.

package rc

import (
	"context"
	stderrors "errors"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/lobby"
	"github.com/rawverbs/rawverbs/rc/internal/dispatch"
	"github.com/rawverbs/rawverbs/verbs"
)

// ServerConfig holds the choices for a server. Of Config, SRQ is one for all Conns, and Exchange,
// Job, Program and Params are unset.
type ServerConfig struct {
	Config                  // of each Conn
	MaxConns int            // clients at a time; more are refused, and told this figure; 0 is 64
	Grace    time.Duration  // for handlers to return after Serve's context ended; 0 is 5 s, less than 0 none
	Unread   func(verbs.WC) // gets the SRQ's receives that no wait of a closed Conn returned; nil drops them. See Server.SRQ
}

// Server has what its connections share: a device, a protection domain, completion queues for
// MaxConns, memory that is registered once, and an SRQ if Config.SRQ is set. [NewServer] makes
// it; it is valid until Close. Its methods may be called by several goroutines at once.
//
// Config.Prepare runs for each client. It shares regions of the Server or of the Conn
// ([Conn.Share]) and posts receives. A memory window of type 2 binds what is shared to the
// client's queue pair: no other client can use the key. If the device has no such windows, or
// QPs is more than 1, each Conn has a protection domain of its own. Share then registers the
// Server's region there, an SRQ is refused, and the Conn's own requests need memory of
// Conn.AllocMR or Conn.RegMR.
type Server struct {
	resources
	conf     ServerConfig
	separate bool    // each Conn has a domain of its own
	shared   windows // regions of the server
	sends    *dispatch.Dispatcher
	recvs    *dispatch.Dispatcher // the same, with OneCQ
	lobby    *lobby.Lobby
	places   chan struct{} // one is filled per client, from its hello until it is closed

	ctx        context.Context // ends when the device is gone, or a queue of the server's is lost
	cancel     context.CancelCauseFunc
	stopEvents func()

	mu      sync.Mutex
	serving int // Serves under way
	closed  bool
}

const (
	defaultMaxConns = 64
	defaultGrace    = 5 * time.Second
)

// NewServer makes the objects of a server. Errors are those of [Config.Check] and of the verbs.
func NewServer(cfg ServerConfig) (*Server, error) {
	if err := cfg.checkUnused(true); err != nil {
		return nil, err
	}
	switch {
	case cfg.Exchange != nil:
		return nil, errors.New("rc: Config.Exchange is set, and a Server speaks the native protocol; try: Listen and Connect")
	case cfg.MaxConns < 0:
		return nil, errors.Errorf("rc: a MaxConns of %d; try: 1 or more", cfg.MaxConns)
	}
	cfg.Config = cfg.complete()
	cfg.MaxConns = orDefault(cfg.MaxConns, defaultMaxConns)
	if cfg.Grace == 0 {
		cfg.Grace = defaultGrace
	}
	s := &Server{resources: resources{cfg: cfg.Config, events: events{cfg.Logger}}, conf: cfg,
		lobby: lobby.New(), places: make(chan struct{}, cfg.MaxConns), stopEvents: func() {}}
	s.cfg.conns = cfg.MaxConns
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
	found, err := s.cfg.inspect(s.dev)
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
	s.sends = dispatch.New(s.sendCQ)
	s.recvs = s.sends
	if s.recvCQ != s.sendCQ {
		s.recvs = dispatch.New(s.recvCQ)
	}
	s.stopEvents = s.dev.Subscribe(func(e verbs.AsyncEvent) {
		if e.Fatal() && s.concerns(e, func(uint32) bool { return false }) {
			s.cancel(&AsyncError{Device: s.dev.Name(), Event: e})
		}
	})
	return nil
}

// binds says whether regions are opened to a peer by windows alone.
func (s *Server) binds() bool { return !s.separate && s.cfg.Type != verbs.UD }

// owns says whether a region is the server's.
func (s *Server) owns(mr *verbs.MR) bool {
	_, known := s.shared.rightsOf(mr)
	return known
}

// SRQ is the queue of receives for all Conns; nil if Config.SRQ is nil. A receive whose completion
// came, failed or not, has left the queue, and the program posts it again. WaitRecv and WaitRecvs
// return the completion, failed ones too. If a Conn closes before they do,
// [ServerConfig].Unread gets it. With OneCQ a failed completion may be a send's: give sends
// other IDs than receives.
func (s *Server) SRQ() *verbs.SRQ { return s.srq }

// AllocMR allocates and registers size bytes for all Conns, until Close; the remote rights are
// for the clients that the region is shared with. Errors are those of [verbs.PD.AllocMR].
func (s *Server) AllocMR(name string, size int, access verbs.Access) (*verbs.MR, error) {
	return s.register(name, access, func(access verbs.Access) (*verbs.MR, error) { return s.pd.AllocMR(size, access) })
}

// RegMR registers the caller's memory for all Conns, until Close; see AllocMR.
func (s *Server) RegMR(name string, buf []byte, access verbs.Access) (*verbs.MR, error) {
	return s.register(name, access, func(access verbs.Access) (*verbs.MR, error) { return s.pd.RegMR(buf, access) })
}

func (s *Server) register(name string, access verbs.Access, reg func(verbs.Access) (*verbs.MR, error)) (*verbs.MR, error) {
	if s.binds() {
		return s.shared.register(&s.resources, name, access, reg)
	}
	mr, err := s.resources.register(name, func() (*verbs.MR, error) { return reg(access) })
	if err == nil {
		s.shared.keep(mr, access&remoteRights)
	}
	return mr, err
}

// Close frees everything, the last made first. It does nothing but return EBUSY until Serve has
// returned. The error is EBUSY, too, because of objects that the program made in the domain:
// close these, and call Close again to free the rest.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving > 0 {
		return errors.WithMessage(syscall.EBUSY, "rc: Close of a server that serves; try: ending Serve's context, and waiting for Serve")
	}
	s.closed = true
	s.stopEvents()
	s.cancel(errServerClosed)
	return stderrors.Join(s.free()...)
}

// begin counts a Serve; false after Close.
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

// useServer takes what the server has made.
func (c *Conn) useServer(s *Server) error {
	c.channel, c.sendCQ, c.recvCQ, c.srq = s.channel, s.sendCQ, s.recvCQ, s.srq
	c.makeRoutes(s.sends, s.recvs)
	if s.separate {
		return c.makePD()
	}
	c.pd = s.pd
	return nil
}
