// Listening, and peers that have connected by TCP.

package rc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/oob"
)

// Listener accepts peers. [Listen] makes it; it is valid until Close. Its methods may be called by
// several goroutines at once.
type Listener struct {
	tcp    *oob.Listener
	cfg    ListenConfig
	close  sync.Once
	closed chan struct{}

	mu    sync.Mutex
	short time.Time // time of the last shortage
}

// ListenConfig holds the choices for a listener and its hello. The zero value works. Each connection
// takes a [Config] of its own.
type ListenConfig struct {
	Job     string            // purpose of the connections; must equal each peer's, unless one is ""
	Program string            // name and version for people at the other end; may be ""
	Params  map[string]string // parameters of this end, within the limits of oob.Hello; may be nil
	Timeout time.Duration     // limit of a hello; 0 is oob.DefaultTimeout, less than 0 no limit
	Logger  *slog.Logger      // gets each peer's messages before Connect, at Debug, and shortages; nil discards them

	TLS  *tls.Config                                       // as in Config; Incoming.Hello makes the handshake, or Connect without a Hello
	Wrap func(context.Context, net.Conn) (net.Conn, error) // as in Config; called where TLS makes its handshake
}

// Listen listens on the TCP address "host:port" or ":port". ctx limits only the look-up of the
// host's name. The error is an *oob.AddressError.
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

// Addr returns the address listened on, with the port.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Close stops listening; a waiting Accept returns net.ErrClosed. Connections stay open.
func (l *Listener) Close() error {
	if l == nil || l.tcp == nil {
		return nil
	}
	l.close.Do(func() { close(l.closed) })
	return l.tcp.Close()
}

// Accept returns the next TCP connection without reading from it. Serve each in a goroutine, so that
// a slow peer does not delay the others. When descriptors or memory run short, Accept logs that,
// pauses and tries again.
func (l *Listener) Accept(ctx context.Context) (*Incoming, error) {
	tcp, err := l.tcp.Accept(ctx)
	for pause := firstPause; isShortage(err); pause = min(2*pause, lastPause) {
		l.pause(ctx, pause, err)
		tcp, err = l.tcp.Accept(ctx)
	}
	if err != nil {
		return nil, err
	}
	tcp.SetObserver(event.Arrival(event.Steps(l.cfg.Logger), nil))
	return &Incoming{tcp: tcp, cfg: l.cfg}, nil
}

// Incoming is a peer that has connected by TCP. Call Hello, then Connect, or Refuse if Hello
// failed; for a peer with another protocol, Connect or TCP().Close(). Connect and Refuse close
// TCP in the end. An Incoming is for one goroutine at a time.
type Incoming struct {
	tcp   *oob.Conn
	cfg   ListenConfig
	hello oob.Hello

	protected   bool              // protect was called
	certificate *x509.Certificate // the peer's
}

// Hello sends the ListenConfig's Job, Program and Params and returns the peer's. The errors are
// those of [oob.Conn.Hello].
func (in *Incoming) Hello(ctx context.Context) (oob.Hello, error) {
	ctx = stepwise{ctx}
	if err := in.protect(ctx); err != nil {
		return oob.Hello{}, err
	}
	hello, err := in.tcp.Hello(ctx, oob.Hello{Role: oob.RoleServer, Job: in.cfg.Job, Program: in.cfg.Program, Params: in.cfg.Params})
	if err != nil {
		return hello, errors.WithMessage(secure.Explain(err, "client"), "hello")
	}
	in.hello = hello
	return hello, nil
}

// protect wraps the connection and makes the TLS handshake, as the ListenConfig says, once. After an
// error it closes the connection.
func (in *Incoming) protect(ctx context.Context) (err error) {
	if in.protected {
		return nil
	}
	in.protected = true
	if err := wrap(ctx, in.tcp, in.cfg.Wrap); err != nil {
		return err
	}
	in.certificate, err = secure.Serve(ctx, in.tcp, in.cfg.TLS)
	return err
}

// PeerCertificate returns the certificate that the peer has shown, which ListenConfig.TLS has verified. It is
// nil before the handshake, and without TLS.
func (in *Incoming) PeerCertificate() *x509.Certificate { return in.certificate }

// TCP returns the TCP connection, which an [Exchange] may read before Connect.
func (in *Incoming) TCP() *oob.Conn { return in.tcp }

// Connect takes the steps after the hello. The errors are those of Dial. After an error everything is
// freed, also if ctx ends while the kernel looks for the peer: Connect then returns when the kernel is done.
// cfg's Job, Program and Params must be unset.
func (in *Incoming) Connect(ctx context.Context, cfg Config) (*Conn, error) {
	if err := cfg.checkUnused(true); err != nil {
		if cfg.Exchange == nil {
			in.Refuse(err)
		}
		in.tcp.Close()
		return nil, err
	}
	ctx = stepwise{ctx}
	if err := in.protect(ctx); err != nil { // another protocol has no Hello
		return nil, err
	}
	return in.connect(ctx, cfg.complete(), nil)
}

// connect is Connect with a Config that is checked and complete. With a server the Conn uses the
// server's objects.
func (in *Incoming) connect(ctx context.Context, cfg Config, server *Server) (*Conn, error) {
	in.tcp.SetTimeout(cfg.Timeout)
	in.tcp.SetObserver(event.Exchange(event.Steps(cfg.Logger)))
	c := newConn(in.tcp, in.hello, cfg, server)
	c.accepted = true
	return c.connect(ctx)
}

// Refuse sends the cause to the peer, within a second, and closes TCP. The peer's Dial returns an
// *oob.PeerError.
func (in *Incoming) Refuse(cause error) {
	in.tcp.Fail("hello", cause)
	in.tcp.Close()
}
