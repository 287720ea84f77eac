// The options of a run: those of both ends, and of each.

package run

import (
	"crypto/tls"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/cmd/internal/view/report"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
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
	TLS      string // directory with this end's certificate, for rc.LoadTLS; "" is a plain exchange
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
	Record   string              // file for the record of both ends; "" writes none
	Report   string              // file for the page that draws both ends; "" writes none
	Ladder   func(*trace.Record) // draws both ends when the run has ended; nil draws nothing
	Retry    time.Duration       // how long a new attempt may begin after the first lost connection of an outage; 0: never
	Progress io.Writer           // a terminal for a progress bar; nil shows none
}

// ServerOptions are what the server may choose.
type ServerOptions struct {
	Options
	*Selection
	Listen     string // the address to listen on; "" is every one, but loopback with soft0 and no TLS
	TCPPort    int
	Once       bool          // serve one client, then return
	MaxClients int           // at a time; more are refused
	MaxSize    kit.Size      // of a buffer or region that a client may ask for
	Grace      time.Duration // for the jobs in progress when ctx ends; 0 ends them at once
	Counts     *Counts       // counts what Serve does; nil counts nothing
	HTTP       string        // the address of the page that shows the clients; "" serves none
	Allow      []string      // the jobs that are done; none is all
	TLSAllow   []string      // the names of the certificates whose clients are served; none is all

	Hangup <-chan os.Signal // has the certificate of TLS read again; it is also read when its files change

	MaxMemory            kit.Size // of all clients; 0 is half of what is left for them now, at most 2 GiB: see package budget
	MaxMemoryPerAddress  kit.Size // 0 is half of MaxMemory, and for clients on this host all
	MaxClientsPerAddress int      // 0 is half of MaxClients, and for clients on this host all

	PeerNetworks Networks // the networks from which a client's GID may be
}

// DefaultMaxSize is how large a buffer or region a client may ask for, if the
// server does not say otherwise.
const DefaultMaxSize kit.Size = 64 << 20

// check refuses choices that cannot work, before anything is opened.
func (o *Options) check() error {
	if _, is := qpstate.MTUFor(o.MTU); !is && o.MTU != 0 {
		return usage.Errorf("there is no path MTU of %d bytes; try: --mtu 256, 512, 1024, 2048 or 4096", o.MTU)
	}
	if o.IBPort < 1 {
		return usage.Errorf("there is no port %d, because ports count from 1; try: --ib-port 1", o.IBPort)
	}
	if o.Timeout <= 0 {
		return usage.Errorf("a timeout of %v is too short; try: --timeout 30s", o.Timeout)
	}
	return nil
}

func (o *ClientOptions) check() error {
	if o.Retry < 0 {
		return usage.Errorf("--retry %v is less than no time; try: --retry 30s", o.Retry)
	}
	return o.Options.check()
}

func (o *ServerOptions) check() error {
	if o.MaxClients < 1 {
		return usage.Errorf("--max-clients %d would refuse every client; try: --max-clients 1 or more", o.MaxClients)
	}
	if o.MaxClientsPerAddress < 0 || o.MaxMemory < 0 || o.MaxMemoryPerAddress < 0 {
		return usage.Errorf("a limit below 0 is not possible; try: --max-memory 1G, --max-memory-per-address 256M, --max-clients-per-address 16")
	}
	if o.MaxSize < 1 {
		return usage.Errorf("with --max-size %d the server cannot serve any client; try: --max-size %v", int64(o.MaxSize), DefaultMaxSize)
	}
	if o.Grace < 0 {
		return usage.Errorf("--grace %v is less than no time; try: --grace 30s", o.Grace)
	}
	if err := o.MaxSize.Addressable("--max-size"); err != nil {
		return err
	}
	if o.HTTP != "" {
		if _, _, err := report.Address(o.HTTP); err != nil {
			return usage.Errorf("--http: %w", err)
		}
	}
	switch {
	case len(o.TLSAllow) > 0 && o.TLS == "":
		return usage.Errorf("--tls-allow needs the certificates of --tls; try: --tls DIR --tls-allow %s", o.TLSAllow[0])
	case slices.Contains(o.TLSAllow, ""):
		return usage.Errorf("--tls-allow has an empty name; try: --tls-allow NAME, where NAME is the common name of a client's certificate")
	}
	for _, name := range o.Allow {
		if _, err := o.Peer.Jobs.Find(name); err != nil {
			return usage.Errorf("--allow: %w", err)
		}
	}
	return o.Options.check()
}

// session is one connection as a job sees it, without what differs between the ends.
func (o *Options) session(log *slog.Logger) kit.Session {
	return kit.Session{Logger: log, Port: o.IBPort, MTU: o.MTU}
}

// config is the part of a connection's configuration that is the same for all jobs,
// without the device.
func (o *Options) config(log *slog.Logger) rc.Config {
	return rc.Config{
		Port: o.IBPort, GIDIndex: o.GIDIndex, MTU: o.MTU,
		Timeout: o.Timeout, Logger: event.Shown(log),
	}
}

// loadTLS reads the directory of --tls; nil without one.
func (o *Options) loadTLS() (*tls.Config, error) {
	if o.TLS == "" {
		return nil, nil
	}
	cfg, err := rc.LoadTLS(o.TLS)
	return cfg, errors.WithMessage(err, "--tls")
}
