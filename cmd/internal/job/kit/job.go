// Package kit defines what a job is and has the pieces that several jobs share. Each job has a
// folder of its own beside this one, with its flags, both its sides and its tests; package run
// has the list of jobs. This package imports no job.
package kit

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// Type is one job, as the list in package run names it.
type Type struct {
	Name  string // what --job selects
	About string // what it does, in one line

	// Client and Server define the flags of one side and return that side. The
	// values are set once the flags are parsed.
	Client func(*pflag.FlagSet) Side
	Server func(*pflag.FlagSet) Side

	// Letters maps long names of the command's flags to one-letter names for this job. The
	// letters are those of the C program that the job replaces.
	Letters map[string]string
}

// List is a list of jobs, the default one first.
type List []Type

// Names returns the names of the jobs.
func (l List) Names() []string {
	var names []string
	for _, t := range l {
		names = append(names, t.Name)
	}
	return names
}

// Find looks a job up by name; "" is the first. The error lists the names.
func (l List) Find(name string) (Type, error) {
	if name == "" {
		return l[0], nil
	}
	i := slices.IndexFunc(l, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return Type{}, errors.Errorf("there is no job %q; try: %s", name, strings.Join(l.Names(), ", "))
	}
	return l[i], nil
}

// Peer is a kind of program at the other end: this module's own, or another project's C
// program, which has its own exchange over TCP.
type Peer struct {
	Name  string // what --peer selects
	About string // in one line
	Port  int    // the TCP port that the program uses by default
	Jobs  List
}

// Side is one side of a job, client or server, for as long as the command runs.
type Side interface {
	// NewEndpoint makes the Endpoint of one session. A wrong flag is a usage.Error.
	NewEndpoint(Session) (Endpoint, error)
}

// SideFunc is a Side that is a function.
type SideFunc func(Session) (Endpoint, error)

// NewEndpoint calls f.
func (f SideFunc) NewEndpoint(s Session) (Endpoint, error) { return f(s) }

// Opener is a Side that opens something when the server starts, such as a folder.
// Close is called when the server ends, if Open succeeded.
type Opener interface {
	Open() error
	io.Closer
}

// Session is one connection as one side of a job sees it.
type Session struct {
	Logger *slog.Logger
	Port   uint8 // of the device, from 1
	MTU    int   // path MTU in bytes that the user asked for; 0 is the port's active MTU

	// At the server:
	Params  Params // the client's parameters; empty if the peer is another kind of program
	MaxSize Size   // the largest buffer or region that a client may ask for

	// At the client:
	Progress io.Writer // a terminal for a progress bar; nil shows none
	Again    bool      // if the connection is lost, another Endpoint of the same Side does the job again
}

// Endpoint runs one side of a job over one connection. It is used once. An Endpoint that is an
// [io.Closer] is closed when its session has ended. The session's queue pairs no longer exist
// then.
type Endpoint interface {
	// Configure sets the job's choices for the connection: queue sizes, access, an exchange in
	// another protocol, and at the client the parameters for the server.
	Configure(*rc.Config)
	// Prepare registers memory and posts receives, with the queue pairs in INIT.
	Prepare(*rc.Conn) error
	// Run does the job, with the queue pairs of both ends in RTS.
	Run(context.Context, *rc.Conn) error
}

// Greeter is a server's Endpoint that reads the first data of another kind of program, such as
// the number of its queue pairs. Greet is called before Configure.
type Greeter interface {
	Greet(context.Context, *oob.Conn) error
}

// Budgeter is a server's Endpoint that says how many bytes it will use: its regions, and what grows
// with the client's parameters. The server asks after NewEndpoint and Greet, before it makes
// anything. Another Endpoint counts as if it used Session.MaxSize.
type Budgeter interface {
	Memory() int64
}

// Succeeder is an Endpoint that can say that its job is done, because the peer has confirmed that. A
// connection that is lost after that is no failure.
type Succeeder interface {
	Succeeded() bool
}

// CloseAll closes what a run opened. It keeps the first error, which is the error of the run
// itself if the run failed, because later errors mostly follow from the first.
func CloseAll(err *error, closers ...io.Closer) {
	for _, c := range closers {
		if cerr := c.Close(); cerr != nil && *err == nil {
			*err = cerr
		}
	}
}

// Run runs one side of a job over a connection, and closes the connection. It logs a failure, and reports
// it to the peer. limit is the longest time that the job may make no progress.
func Run(ctx context.Context, conn *rc.Conn, e Endpoint, limit time.Duration, log *slog.Logger) (err error) {
	defer CloseAll(&err, conn)
	defer func() {
		if s, ok := e.(Succeeder); ok && s.Succeeded() && Lost(err) {
			err = nil
		}
		if err != nil {
			event.JobFailed.LogAt(slog.LevelDebug, log, "failed: "+err.Error(), slog.String("error", err.Error()))
		}
	}()
	ctx, cancel := untilStalled(ctx, limit, arrivals(conn.QPs()))
	defer cancel()
	conn.TCP().SetTimeout(limit)
	if err := e.Run(ctx, conn); err != nil {
		err = explain(ctx, conn.Context(), whyEnded(ctx, err), closedWithin)
		conn.TCP().Fail(failedStep(ctx, err), err)
		return err
	}
	Progress(ctx)
	return conn.Finish(ctx)
}
