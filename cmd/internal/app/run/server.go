// The server's run: open, listen, and serve clients side by side until it is stopped.

package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/app/budget"
	"github.com/rawverbs/rawverbs/cmd/internal/app/systemd"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/event"
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
	if o.Once {
		o.MaxClients = 1
	}
	memory, from, err := budget.ForClients(int64(o.MaxMemory), o.pageMemory())
	if err != nil {
		return err
	}
	defer budget.Contain(memory + o.pageMemory())()
	limits := o.limits(memory)
	all := o.Logger
	o.Logger = all.With(slog.String("who", "server"))
	for _, side := range o.sides {
		if opener, ok := side.(kit.Opener); ok {
			if err := opener.Open(); err != nil {
				return err
			}
			defer kit.CloseAll(&err, opener)
		}
	}
	secured, err := o.certificates()
	if err != nil {
		return err
	}
	cfg := o.config(o.Logger)
	if !o.Native() { // the needs of the one job are known
		endpoint, err := o.sides[o.Job.Name].NewEndpoint(o.session(o.Logger))
		if err != nil {
			return err
		}
		configure(endpoint, &cfg)
	}
	var with verbs.OpenOptions
	if o.Counts == nil {
		o.Counts = new(Counts)
	} else {
		with.WCs = &o.Counts.WCs
	}
	o.Counts.expect(o.does())
	dev, err := o.openDevice(&cfg, with)
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, dev)
	check := func() error { // cfg.Check succeeded when the device was opened
		if err := cfg.Check(dev); err != nil {
			return err
		}
		return o.checkAddress(context.WithoutCancel(ctx))
	}
	o.Counts.use(dev, o.IBPort, check)
	defer o.Counts.use(nil, 0, nil)
	live, shown := o.watched(dev)
	packets, err := o.capture(dev, o.Logger, shown)
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, packets)

	port := &portWatch{log: o.Logger, check: check}
	ctx, stop := untilFatal(ctx, dev, port.heard)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() { port.watch(ctx) })

	stopPage, err := o.servePage(ctx, live)
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, stopPage)
	listener, err := o.listen(ctx, dev.Name(), secured.config(), slog.Int64("max_memory", memory), slog.String("max_memory_from", from))
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, listener)
	if secured != nil {
		go secured.watch(ctx, o.Hangup)
	}
	controller := admission.New(limits)
	controller.Freed = new(budget.Reclaimer).Freed
	o.Counts.serve(controller, limits, secured)
	if err := systemd.Notify(systemd.Ready); err != nil {
		return err
	}
	defer o.Counts.stop()
	s := &server{ServerOptions: o, dev: dev, all: all, live: live, admission: controller}
	if o.Once {
		return s.serveOne(ctx, listener)
	}
	return s.serveAll(ctx, listener)
}

// configure has a server's endpoint make its choices. What it would say in a hello is the
// client's to say.
func configure(endpoint kit.Endpoint, cfg *rc.Config) {
	cfg.Params = kit.Params{}
	endpoint.Configure(cfg)
	cfg.Params = nil
}

type server struct {
	ServerOptions
	dev       *verbs.Device
	all       *slog.Logger // without a "who", for each client's own
	live      *report.Live // for the pages of --http; nil without
	admission *admission.Controller

	strangers event.Sample // whose failures are logged
}

// incoming is a client that has connected by TCP.
type incoming struct {
	*rc.Incoming
	*admission.Client
	who       string      // "server/" and its number; "server" with Once
	at        time.Time   // when it connected by TCP
	job       string      // that it has chosen; "" before that
	motion    *kit.Motion // of its job; nil before it has a place
	connected bool        // its queue pairs were in RTS
}

// accept calls serve for each client, in a goroutine of clients, until ctx ends or the listener fails.
func (s *server) accept(ctx context.Context, l *rc.Listener, clients *sync.WaitGroup, serve func(*incoming)) error {
	return admission.Serve(ctx, s.admission, clients, l.Accept, func(c *admission.Client, in *rc.Incoming) {
		serve(&incoming{Incoming: in, Client: c, who: fmt.Sprintf("server/%d", c.Number), at: time.Now()})
	})
}

// serveOne serves clients until the job of one has begun and is over. A connection that
// begins no job, such as a port scanner, delays no client and does not count.
func (s *server) serveOne(ctx context.Context, l *rc.Listener) error {
	until, stop := context.WithCancel(ctx)
	defer stop()
	jobs, cut := s.graceful(ctx)
	defer cut()
	var clients sync.WaitGroup
	served := make(chan error, 1) // the result of the one client's job
	err := s.accept(until, l, &clients, func(in *incoming) {
		in.who = "server"
		err := s.client(jobs, in)
		if errors.As(err, new(jobless)) {
			if until.Err() == nil {
				s.failed(in, err)
			}
			return
		}
		select {
		case served <- err:
		default: // a client that connected just before stop
		}
		stop()
		cut()
	})
	if err := s.leave(ctx, jobs, &clients, l); err != nil {
		return err
	}
	select {
	case err = <-served:
		return err
	default:
		return interrupted(ctx, err)
	}
}

// serveAll serves each client in a goroutine. A client that fails is reported and does not
// end the server. To be stopped while there are clients is an error.
func (s *server) serveAll(ctx context.Context, l *rc.Listener) error {
	var clients sync.WaitGroup
	jobs, stop := s.graceful(ctx)
	defer stop()
	var done, failed, cut atomic.Int32 // clients; those cut short failed, too
	err := s.accept(ctx, l, &clients, func(in *incoming) {
		err := s.client(jobs, in)
		if err == nil {
			done.Add(1)
			return
		}
		failed.Add(1)
		if errors.As(err, new(cutShort)) {
			cut.Add(1)
		}
		s.failed(in, err)
	})
	if err := s.leave(ctx, jobs, &clients, l); err != nil {
		return err
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) && cut.Load() == 0 {
		event.ServerStopped.Log(s.Logger, "stopped between clients", slog.Int("done", int(done.Load())), slog.Int("failed", int(failed.Load())))
		return nil
	}
	return interrupted(ctx, err)
}

// failed reports a client that does not end the server.
func (s *server) failed(in *incoming, err error) {
	s.strangers.Failed(!in.connected, func(omitted ...slog.Attr) {
		attrs := append(in.ended("failed", slog.String("error", err.Error())), omitted...)
		event.ClientFailed.LogAt(slog.LevelError, s.all.With(slog.String("who", in.who)), "client failed", attrs...)
	})
}

// accepted reports a client's connection, when its first message has come.
func (in *incoming) accepted(log *slog.Logger) {
	event.ClientAccepted.LogPast(in.at, slog.LevelInfo, log, "client connected by TCP", in.peer()...)
}

// ended returns the attributes of the event that ends a client: its line in a summary.
func (in *incoming) ended(outcome string, more ...slog.Attr) []slog.Attr {
	attrs := in.peer()
	if in.job != "" {
		attrs = append(attrs, slog.String("job", in.job))
	}
	attrs = append(attrs, slog.String("outcome", outcome), slog.Int64("bytes", in.motion.Bytes()),
		slog.Float64("seconds", seconds(time.Since(in.at))))
	return append(attrs, more...)
}

// seconds returns a duration rounded to milliseconds. Unlike that of Seconds, its text has no more than three decimals.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// cutShort is the error of a client whose job ended with the server's jobs.
type cutShort struct{ error }

func (c cutShort) Unwrap() error { return c.error }

// cutShortIf returns the error of a client that was being connected or did its job. If the server's jobs have ended, the error is
// cutShort.
func cutShortIf(jobs context.Context, err error) error {
	if jobs.Err() == nil || errors.As(err, new(jobless)) {
		return err
	}
	return cutShort{err}
}

// client serves one client from the hello to the end. jobs is the context of the server's jobs.
func (s *server) client(jobs context.Context, in *incoming) (err error) {
	s.Counts.connections.Add(1)
	defer func() { err = inOurWords(s.Peer.Name, err) }()
	shown := s.live.Begin(in.who, in.TCP().RemoteAddr().String())
	defer func() {
		if none := (jobless{}); errors.As(err, &none) {
			s.Counts.refused[none.why].Add(1)
			shown.Remove()
		} else {
			shown.End(err)
		}
	}()
	record := s.keep(in.who, shown)
	log := record.log
	in.TCP().SetObserver(event.Arrival(log, func() { in.accepted(log) }))
	refuse := in.Refuse
	if !s.Native() {
		refuse = func(error) { _ = in.TCP().Close() }
	}
	defer in.Leave() // after everything is freed
	hello, endpoint, err := s.greet(in, record)
	if c, ok := endpoint.(io.Closer); ok {
		defer kit.CloseAll(&err, c)
	}
	shown.Job(hello.Job)
	if err != nil {
		refuse(err)
		s.Counts.finished(hello.Job, time.Time{}, 0, err)
		return err
	}
	cfg := s.config(log)
	cfg.Device, cfg.Prepare, cfg.PeerNetworks = s.dev, endpoint.Prepare, s.PeerNetworks
	configure(endpoint, &cfg)
	memory := memoryOf(&cfg, endpoint, s.MaxSize, record.wanted)
	ctx, err := s.admit(jobs, in, memory)
	if err != nil {
		refuse(err)
		return err
	}
	admitted := time.Now()
	defer func() { s.Counts.finished(hello.Job, admitted, in.motion.Bytes(), err) }()
	conn, err := in.Connect(ctx, cfg)
	if err != nil {
		return cutShortIf(jobs, s.joblessIfStranger(ctx, err))
	}
	in.connected = true
	_ = in.Connected(memory) // if the client has to leave, its context ends the job
	record.connected(ctx, conn)
	if err := kit.Run(ctx, conn, endpoint, s.Timeout, log); err != nil {
		return cutShortIf(jobs, err)
	}
	event.RunDone.Log(log, "done: the job succeeded and everything of this client is freed", in.ended("succeeded")...)
	return nil
}

// greet reads a client's hello, and what else its job needs before anything is made. In a format
// without a hello, this server's own choices stand for it, and greet waits for the first byte: in all
// those formats the client writes at once. Until greet returns the client has no place. After an
// error the endpoint may be nil.
func (s *server) greet(in *incoming, record *giveRecord) (hello oob.Hello, endpoint kit.Endpoint, err error) {
	err = in.Client.Hello(s.Timeout, func(ctx context.Context) (err error) {
		if s.Native() {
			if hello, err = in.Incoming.Hello(ctx); err == nil {
				err = s.allowed(in)
			}
		} else {
			hello.Job, err = s.Job.Name, in.TCP().AwaitFirst(ctx, "the peer's first word")
		}
		if err != nil {
			return s.noHello(ctx, err)
		}
		record.asked(hello)
		side, err := s.find(hello.Job)
		if err != nil {
			return jobless{err, RefusedJob}
		}
		in.job = hello.Job
		if endpoint, err = side.NewEndpoint(s.clientSession(hello, record.log)); err != nil {
			return err
		}
		if g, ok := endpoint.(kit.Greeter); ok {
			if err := g.Greet(ctx, in.TCP()); err != nil {
				return s.joblessIfStranger(ctx, err)
			}
		}
		if !s.Native() { // whose messages have no observer
			in.accepted(record.log)
		}
		return nil
	})
	return hello, endpoint, err
}

// does returns the names of the jobs that the server does.
func (o *ServerOptions) does() []string {
	if len(o.Allow) > 0 {
		return o.Allow
	}
	return slices.Collect(maps.Keys(o.sides))
}

// find finds the side of the job that a client asks for, among those that the server
// does.
func (s *server) find(name string) (kit.Side, error) {
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
func (s *server) clientSession(hello oob.Hello, log *slog.Logger) kit.Session {
	session := s.session(log)
	session.MaxSize = s.MaxSize
	if s.Native() {
		event.JobChosen.Log(log, "the client chooses the job "+hello.Job, slog.Any("params", kit.Params(hello.Params).Logged()))
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
