// Listening for peers, and the peer that has connected by TCP.

package rc

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
)

// Listener waits for peers. [Listen] makes it; it is valid until Close. Its methods may be
// called by several goroutines at once.
type Listener struct {
	tcp    *oob.Listener
	cfg    ListenConfig
	close  sync.Once
	closed chan struct{}

	mu    sync.Mutex
	short time.Time // of the last shortage
}

// ListenConfig holds the choices for a listener and for the hello with each peer. The zero
// value works. The connections themselves take a [Config] each.
type ListenConfig struct {
	Job     string            // what the peers are served with, as theirs unless one is ""; "" serves any
	Program string            // for people at the other end: name and version; may be ""
	Params  map[string]string // the server's parameters, within the limits of oob.Hello; nil is none
	Timeout time.Duration     // for a hello whose context has no deadline; 0 is oob.DefaultTimeout, less than 0 none
	Logger  *slog.Logger      // gets the messages of each peer until Connect, and shortages; nil discards them
}

// Listen opens the TCP port of "host:port" or ":port". ctx limits only the look-up of the
// host's name: the Listener lasts until Close. The error is an *oob.AddressError.
func Listen(ctx context.Context, address string, cfg ListenConfig) (*Listener, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	tcp, err := oob.Listen(ctx, address, oob.Options{Timeout: cfg.Timeout})
	if err != nil {
		return nil, err
	}
	return &Listener{tcp: tcp, cfg: cfg, closed: make(chan struct{})}, nil
}

// Addr is the address listened on, with the port that was given.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Close ends the listening, and a waiting Accept with net.ErrClosed; connections stay.
// Closing again does nothing.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.tcp.Close()
}

// Accept waits for the next TCP connection and reads nothing from it, so that a
// slow or hostile peer holds up nobody: handle each Incoming in a goroutine. It waits
// until ctx ends or Close. While the process or the host is short of file descriptors or
// memory, Accept pauses, logs the shortage, and tries again.
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	tcp, err := l.tcp.Accept(ctx)
	for pause := firstPause; isShortage(err); pause = min(2*pause, lastPause) {
		l.pause(ctx, pause, err)
		tcp, err = l.tcp.Accept(ctx)
	}
	if err != nil {
		return nil, err
	}
	tcp.SetObserver(event.Exchange(l.cfg.Logger))
	return &Incoming{tcp: tcp, cfg: l.cfg}, nil
}

// Incoming is a peer that has connected by TCP: Hello first, then Connect or
// Refuse. Where an Exchange stands in for the native protocol, Connect or Drop. One of
// the three must be called, since they close TCP in the end; Refuse or Drop if Hello
// failed. It is for one goroutine at a time.
type Incoming struct {
	tcp   *oob.Conn
	cfg   ListenConfig
	hello oob.Hello
}

// Hello sends the listener's Job, Program and Params to the peer, and returns the peer's.
// The errors are those of [oob.Conn.Hello]; call Refuse after an error.
func (in *Incoming) Hello(ctx context.Context) (oob.Hello, error) {
	hello, err := in.tcp.Hello(ctx, oob.Hello{Role: oob.RoleServer, Job: in.cfg.Job, Program: in.cfg.Program, Params: in.cfg.Params})
	if err != nil {
		return hello, errors.WithMessage(err, "hello")
	}
	in.hello = hello
	return hello, nil
}

// TCP is the connection to the peer. With an [Exchange] a program may read from it before
// Connect, when what the peer sends first decides the Config.
func (in *Incoming) TCP() *oob.Conn { return in.tcp }

// Connect takes the steps after the hello; with an Exchange there is no hello. cfg's Job,
// Program and Params must be unset, because the hello carried the listener's. The error, and
// what is left after it, are as those of [Dial]; the TCP connection is closed.
func (in *Incoming) Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if err := cfg.checkUnused(true); err != nil {
		if cfg.Exchange == nil {
			in.Refuse(err)
		}
		in.tcp.Close()
		return nil, err
	}
	return in.connect(ctx, cfg.complete(), nil)
}

// connect is Connect with a Config that was checked and completed.
func (in *Incoming) connect(ctx context.Context, cfg Config, server *Server) (*Conn, error) {
	in.tcp.SetTimeout(cfg.Timeout)
	in.tcp.SetObserver(event.Exchange(cfg.Logger))
	return connect(ctx, in.tcp, in.hello, cfg, server)
}

// Refuse sends the cause to the peer and closes the TCP connection: the peer's Dial fails
// with an *oob.PeerError. It takes a second at most. Drop sends nothing; it is for peers
// that do not speak the native protocol.
func (in *Incoming) Refuse(cause error) {
	in.tcp.Fail("hello", cause)
	in.tcp.Close()
}
