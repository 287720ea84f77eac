// Package job defines what a job is and has the pieces that several jobs share. Each job has a
// folder of its own here, with its flags, both its sides and its tests; package run has the
// list of them. This package imports no job.
package job

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

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

	// Letters are the short names that this job gives to flags of the command, by
	// their long names: those of the C program that the job replaces.
	Letters map[string]string
}

// List is a list of jobs, the default one first.
type List []Type

// Names are the names of the jobs.
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

// Peer is a kind of program at the other end: this module's own, or a C program of
// others, which has an exchange over TCP of its own.
type Peer struct {
	Name  string // what --peer selects
	About string // in one line
	Port  int    // the TCP port that the program uses by default
	Jobs  List
}

// Side is one side of a job, client or server, for as long as the command runs.
type Side interface {
	// NewEndpoint makes the Endpoint of one session. A wrong flag is a UsageError.
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
	Params  Params // what the client asks for; empty with a foreign program
	MaxSize Size   // the largest buffer or region that a client may ask for

	// At the client:
	Progress io.Writer // a terminal for a progress bar; nil shows none
}

// Endpoint runs one side of a job over one connection. It is used once. An Endpoint
// that is an [io.Closer] is closed when its session has ended: its queue pairs are
// gone by then, if there were any.
type Endpoint interface {
	// Configure sets what the connection needs beyond the ordinary: sizes of queues,
	// access, a foreign exchange, and at the client the parameters for the server.
	Configure(*rc.Config)
	// Prepare registers memory and posts receives, with the queue pairs in INIT.
	Prepare(*rc.Conn) error
	// Run does the job, with the queue pairs of both ends in RTS.
	Run(context.Context, *rc.Conn) error
}

// Greeter is an Endpoint of a server that reads what a foreign program sends first, such
// as how many queue pairs it has. Greet is called before Configure.
type Greeter interface {
	Greet(context.Context, *oob.Conn) error
}

// UsageError reports choices that fail with any device and any peer.
type UsageError struct{ error }

// Unwrap returns the error inside.
func (e UsageError) Unwrap() error { return e.error }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// CloseAll closes what a run opened. The first error stands: the error of the run
// itself, if there is one, because later errors mostly follow from it.
func CloseAll(err *error, closers ...io.Closer) {
	for _, c := range closers {
		if cerr := c.Close(); cerr != nil && *err == nil {
			*err = cerr
		}
	}
}

// Run runs one side of a job over a connection, and closes the connection. It reports a
// failure to the peer. The job may stand still for as long as limit.
func Run(ctx context.Context, conn *rc.Conn, e Endpoint, limit time.Duration) (err error) {
	defer CloseAll(&err, conn)
	ctx, cancel := untilStalled(ctx, limit)
	defer cancel()
	if err := e.Run(ctx, conn); err != nil {
		err = explain(ctx, conn.Context(), err, closedWithin)
		conn.TCP().Fail("job", err)
		return err
	}
	Progress(ctx)
	return conn.Finish(ctx)
}
