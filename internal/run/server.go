// The server's run: open, listen, and serve clients side by side until it is stopped.

package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/lobby"
	"github.com/rawverbs/rawverbs/internal/trace"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Serve serves until ctx ends or, with Once, until the job of one client is over. It
// returns nil if it was stopped between clients, or if the job of the one client
// succeeded.
func Serve(ctx context.Context, o ServerOptions) (err error) {
	if err := o.check(); err != nil {
		return err
	}
	all := o.Logger
	o.Logger = all.With(slog.String("who", "server"))
	for _, side := range o.sides {
		if opener, ok := side.(job.Opener); ok {
			if err := opener.Open(); err != nil {
				return err
			}
			defer job.CloseAll(&err, opener)
		}
	}
	cfg := o.config(o.Logger)
	if !o.Native() { // the needs of the one job are known
		endpoint, err := o.sides[o.Job.Name].NewEndpoint(o.session(o.Logger))
		if err != nil {
			return err
		}
		configure(endpoint, &cfg)
	}
	dev, err := o.openDevice(&cfg)
	if err != nil {
		return err
	}
	defer job.CloseAll(&err, dev)
	packets, err := o.capture(dev, o.Logger)
	if err != nil {
		return err
	}
	defer job.CloseAll(&err, packets)

	ctx, stop := untilFatal(ctx, dev, func(e verbs.AsyncEvent) {
		event.AsyncEvent.Log(o.Logger, e.String(), slog.Bool("fatal", e.Fatal()))
	})
	defer stop()

	listener, err := rc.Listen(ctx, net.JoinHostPort(o.Listen, strconv.Itoa(o.TCPPort)), rc.ListenConfig{
		Program: o.Program, Params: job.Params{job.ParamMaxSize: strconv.FormatInt(int64(o.MaxSize), 10), trace.Param: trace.ParamValue, trace.LadderParam: trace.ParamValue},
		Timeout: o.Timeout, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	defer job.CloseAll(&err, listener)
	who := "rdma_client"
	if !o.Native() {
		who = "a client of --peer " + o.Peer.Name
	}
	event.ServerListening.Log(o.Logger, fmt.Sprintf("listening on %s for %s", listener.Addr(), who),
		slog.String("address", listener.Addr().String()))
	s := &server{ServerOptions: o, dev: dev, all: all}
	if o.Once {
		s.MaxClients = 1
	}
	s.places, s.lobby = make(chan struct{}, s.MaxClients), lobby.New()
	if o.Once {
		return s.serveOne(ctx, listener)
	}
	return s.serveAll(ctx, listener)
}

// configure has a server's endpoint make its choices. What it would say in a hello is the
// client's to say.
func configure(endpoint job.Endpoint, cfg *rc.Config) {
	cfg.Params = job.Params{}
	endpoint.Configure(cfg)
	cfg.Params = nil
}

type server struct {
	ServerOptions
	dev    *verbs.Device
	all    *slog.Logger // without a "who", for each client's own
	lobby  *lobby.Lobby
	places chan struct{} // one is filled for each client, from its hello on
}

// comer is a connection whose hello has not arrived yet.
type comer struct {
	*rc.Incoming
	guest *lobby.Guest
}

// accept lets the next connection into the lobby. Connections enter in the order in which
// they were accepted, so the one that is dropped for others is the oldest.
func (s *server) accept(ctx context.Context, l *rc.Listener) (*comer, error) {
	in, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	return &comer{in, s.lobby.Enter(ctx)}, nil
}

// serveOne serves clients until the job of one has begun and is over. A connection that
// begins no job, such as a port scanner, delays no client and does not count.
func (s *server) serveOne(ctx context.Context, l *rc.Listener) error {
	until, stop := context.WithCancel(ctx)
	defer stop()
	var comers sync.WaitGroup
	served := make(chan error, 1) // the result of the one client's job
	for {
		in, err := s.accept(until, l)
		if err != nil {
			comers.Wait()
			select {
			case err = <-served:
				return err
			default:
				return interrupted(ctx, err)
			}
		}
		comers.Go(func() {
			err := s.client(until, in, "server")
			if errors.As(err, new(jobless)) {
				if until.Err() == nil {
					s.failed(in, "server", err)
				}
				return
			}
			select {
			case served <- err:
			default: // a client that connected just before stop
			}
			stop()
		})
	}
}

// serveAll serves each client in a goroutine. A client that fails is reported and does not
// end the server. To be stopped while there are clients is an error.
func (s *server) serveAll(ctx context.Context, l *rc.Listener) error {
	var clients sync.WaitGroup
	defer clients.Wait()
	var done, failed, cutShort atomic.Int32 // clients; those cut short failed by the end of ctx
	for number := 1; ; number++ {
		in, err := s.accept(ctx, l)
		if err != nil {
			clients.Wait()
			if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) && cutShort.Load() == 0 {
				event.ServerStopped.Log(s.Logger, "stopped between clients", slog.Int("done", int(done.Load())), slog.Int("failed", int(failed.Load())))
				return nil
			}
			return interrupted(ctx, err)
		}
		clients.Go(func() {
			who := fmt.Sprintf("server/%d", number)
			err := s.client(ctx, in, who)
			if err == nil {
				done.Add(1)
				return
			}
			failed.Add(1)
			if ctx.Err() != nil && !errors.As(err, new(jobless)) {
				cutShort.Add(1)
			}
			s.failed(in, who, err)
		})
	}
}

// failed reports a client that does not end the server.
func (s *server) failed(in *comer, who string, err error) {
	event.ClientFailed.LogAt(slog.LevelError, s.all.With(slog.String("who", who)), "client failed",
		slog.String("peer", in.TCP().RemoteAddr().String()), slog.String("error", err.Error()))
}

// jobless is the error of a connection that began no job: stopping the server did not cut
// a job short.
type jobless struct{ error }

func (j jobless) Unwrap() error { return j.error }

// joblessIfStranger returns the error of a failed connection. It makes it jobless if no
// whole message of a client has arrived, because then there was no client.
func joblessIfStranger(err error) error {
	var closed *oob.ClosedError
	var late *oob.TimeoutError
	stranger := errors.Is(err, oob.ErrForeignPeer)
	switch {
	case errors.As(err, &closed):
		stranger = closed.First
	case errors.As(err, &late):
		stranger = late.Last == ""
	}
	if stranger {
		return jobless{err}
	}
	return err
}

// client serves one client from the hello to the end.
func (s *server) client(ctx context.Context, in *comer, who string) (err error) {
	defer func() { err = inOurWords(s.Peer.Name, err) }()
	record := s.keep(who)
	log := record.log
	in.TCP().SetObserver(event.Exchange(log))
	record.offer(in.TCP())
	event.ClientAccepted.Log(log, "client connected by TCP", slog.String("peer", in.TCP().RemoteAddr().String()))
	refuse := in.Refuse
	if !s.Native() {
		refuse = func(error) { _ = in.TCP().Close() }
	}
	hello, err := s.greet(in)
	if err != nil {
		refuse(err)
		return jobless{err}
	}
	defer func() { <-s.places }()
	record.asked(hello)
	side, err := s.find(hello.Job)
	if err != nil {
		refuse(err)
		return jobless{err}
	}
	endpoint, err := side.NewEndpoint(s.clientSession(hello, log))
	if err != nil {
		refuse(err)
		return err
	}
	if c, ok := endpoint.(io.Closer); ok {
		defer job.CloseAll(&err, c)
	}
	if g, ok := endpoint.(job.Greeter); ok {
		if err := g.Greet(ctx, in.TCP()); err != nil {
			refuse(err)
			return joblessIfStranger(err)
		}
	}
	cfg := s.config(log)
	cfg.Device, cfg.Prepare = s.dev, endpoint.Prepare
	configure(endpoint, &cfg)
	conn, err := in.Connect(ctx, cfg)
	if err != nil {
		return joblessIfStranger(err)
	}
	record.connected(ctx, conn)
	if err := job.Run(ctx, conn, endpoint, s.Timeout); err != nil {
		return err
	}
	event.RunDone.Log(log, "done: the job succeeded and everything of this client is freed", slog.String("job", hello.Job))
	return nil
}

// greet reads a client's hello and takes a place for the client. In a format without a
// hello, this server's own choices stand for it, and greet waits for the first byte: in
// all those formats the client writes at once.
func (s *server) greet(in *comer) (hello oob.Hello, err error) {
	err = in.guest.Wait(s.Timeout, func(ctx context.Context) (err error) {
		if s.Native() {
			hello, err = in.Hello(ctx)
		} else {
			hello.Job, err = s.Job.Name, in.TCP().AwaitFirst(ctx, "the peer's first word")
		}
		return err
	})
	if err != nil {
		return hello, err
	}
	select {
	case s.places <- struct{}{}:
		return hello, nil
	default:
		if s.Once {
			return hello, errors.New("the server serves only one client and has it; try: a server without --once")
		}
		return hello, errors.Errorf("the server already has %d clients; try: later, or rdma_server --max-clients", s.MaxClients)
	}
}

// find finds the side of the job that a client asks for, among those that the server
// does.
func (s *server) find(name string) (job.Side, error) {
	if name == "" {
		return nil, errors.Errorf("the client did not name a job; try: %s", strings.Join(s.Peer.Jobs.Names(), ", "))
	}
	if _, err := s.Peer.Jobs.Find(name); err != nil {
		return nil, err
	}
	if len(s.Allow) > 0 && !slices.Contains(s.Allow, name) {
		return nil, errors.Errorf("this server does not do the job %q; try: %s, or rdma_server --allow", name, strings.Join(s.Allow, ", "))
	}
	return s.sides[name], nil
}

// clientSession is a client's session, as its hello asks for it.
func (s *server) clientSession(hello oob.Hello, log *slog.Logger) job.Session {
	session := s.session(log)
	session.MaxSize = s.MaxSize
	if s.Native() {
		event.JobChosen.Log(log, "the client chooses the job "+hello.Job, slog.Any("params", hello.Params))
		session.Params = hello.Params
	}
	return session
}

// interrupted returns why an Accept ended: the cause of ctx if ctx has ended, else err.
func interrupted(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
