// The options of a run: those of both ends, and of each.

package run

import (
	"io"
	"log/slog"
	"time"

	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/lobby"
	"github.com/rawverbs/rawverbs/internal/trace"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
)

// Options are what both ends of a job may choose.
type Options struct {
	Device   string // "" opens the first
	IBPort   uint8  // the device's port, from 1
	GIDIndex *int   // nil lets the connection choose
	MTU      int    // path MTU in bytes; 0 is the port's active one
	PCAP     string // file for the packets of a soft device; "" captures nothing
	Timeout  time.Duration
	Program  string
	Logger   *slog.Logger
}

// ClientOptions are what the client may choose.
type ClientOptions struct {
	Options
	*Selection
	Server   string // the server's address, without the port
	TCPPort  int
	Record   string        // file for the record of both ends; "" writes none
	Ladder   *trace.Ladder // draws both ends while the job runs; nil: none. Logger is its Handler
	Progress io.Writer     // a terminal for a progress bar; nil shows none
}

// ServerOptions are what the server may choose.
type ServerOptions struct {
	Options
	*Selection
	Listen     string // the address to listen on; "" is every one
	TCPPort    int
	Once       bool     // serve one client, then return
	MaxClients int      // at a time; more are refused
	MaxSize    job.Size // of a buffer or region that a client may ask for
	Allow      []string // the jobs that are done; none is all
}

// DefaultMaxSize is how large a buffer or region a client may ask for, if the
// server does not say otherwise.
const DefaultMaxSize job.Size = 64 << 20

// check refuses choices that cannot work, before anything is opened.
func (o *Options) check() error {
	if _, is := qpstate.MTUFor(o.MTU); !is && o.MTU != 0 {
		return job.Usagef("there is no path MTU of %d bytes; try: --mtu 256, 512, 1024, 2048 or 4096", o.MTU)
	}
	if o.IBPort < 1 {
		return job.Usagef("there is no port %d, because ports count from 1; try: --ib-port 1", o.IBPort)
	}
	if o.Timeout <= 0 {
		return job.Usagef("a timeout of %v is too short; try: --timeout 30s", o.Timeout)
	}
	return nil
}

func (o *ServerOptions) check() error {
	if o.MaxClients < 1 {
		return job.Usagef("--max-clients %d would refuse every client; try: --max-clients 1 or more", o.MaxClients)
	}
	if o.MaxSize < 1 {
		return job.Usagef("with --max-size %d the server cannot serve any client; try: --max-size %v", int64(o.MaxSize), DefaultMaxSize)
	}
	if err := o.MaxSize.Addressable("--max-size"); err != nil {
		return err
	}
	for _, name := range o.Allow {
		if _, err := o.Peer.Jobs.Find(name); err != nil {
			return job.Usagef("--allow: %w", err)
		}
	}
	return o.Options.check()
}

// session is one connection as a job sees it, without what differs between the ends.
func (o *Options) session(log *slog.Logger) job.Session {
	return job.Session{Logger: log, Port: o.IBPort, MTU: o.MTU}
}

// config is the part of a connection's configuration that is the same for all jobs,
// without the device.
func (o *Options) config(log *slog.Logger) rc.Config {
	return rc.Config{
		Port: o.IBPort, GIDIndex: o.GIDIndex, MTU: o.MTU,
		Timeout: o.Timeout, Logger: log,
	}
}

// HelloLimit is how long a server waits for a client's hello, if --timeout is not shorter.
const HelloLimit = lobby.HelloLimit
