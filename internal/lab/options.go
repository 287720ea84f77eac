// What may be chosen for a run, at both ends and at each.

package lab

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
)

// Options are what both ends of a job may choose.
type Options struct {
	Device   string // "" takes the first
	IBPort   uint8  // the device's port, from 1
	GIDIndex *int   // nil chooses
	MTU      int    // path MTU in bytes; 0 is the port's active one
	PCAP     string // file for the packets of a soft device; "" captures nothing
	Timeout  time.Duration
	Program  string
	Logger   *slog.Logger
}

// ClientOptions are what the client may choose.
type ClientOptions struct {
	Options
	Server  string // the server's address, without the port
	TCPPort int
	Record  string // file for the record of both ends; "" writes none
	JobOptions
}

// JobOptions are the choices for a job; each job uses some of them, see its flags.
// They are the client's, who tells the server; but where the format of the exchange
// is another program's, each end has its own.
type JobOptions struct {
	Wire string // the format of the exchange; "" is the native one
	Job  string // "" is the format's first

	Text  string // what is sent or written
	Size  Size   // of each message buffer, of the region at the server, or of all data
	Chunk Size   // of each request, where there are many
	Op    string // the operation; "" is the job's first
	Count int    // operations
	Add   uint64 // what each adds
	File  string // the path of what is sent
	Name  string // the file's at the server; "" is the last part of the path
	Bulk  BulkOptions
	Bench BenchOptions
	Check bool // look at the pages of what the server has received

	LeaveEarly bool // have the server leave one completion before the end

	Progress io.Writer // a terminal for a progress bar; nil shows none
}

// ServerOptions are what the server may choose.
type ServerOptions struct {
	Options
	Listen     string // the address to listen on; "" is every one
	TCPPort    int
	Once       bool     // serve one client, then return
	MaxClients int      // at a time; more are refused
	MaxSize    Size     // of a buffer or region that a client may ask for
	Allow      []string // the jobs that are done; none is all
	Dir        string   // where files go; "" takes none
	MaxFile    Size     // that a client may send
	JobOptions          // of a format that is another program's
}

// DefaultMaxSize is how large a buffer or region a client may ask for, if the
// server does not say otherwise.
const DefaultMaxSize Size = 64 << 20

// DefaultMaxFile is how large a file a client may send, if the server does not say
// otherwise.
const DefaultMaxFile Size = 16 << 30

// UsageError is of choices that would fail whatever the device and the peer.
type UsageError struct{ error }

func (e UsageError) Unwrap() error { return e.error }

// Usagef makes a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// check refuses choices that cannot work, before anything is opened.
func (o *Options) check() error {
	if _, is := qpstate.MTUFor(o.MTU); !is && o.MTU != 0 {
		return Usagef("there is no path MTU of %d bytes; try: --mtu 256, 512, 1024, 2048 or 4096", o.MTU)
	}
	if o.IBPort < 1 {
		return Usagef("there is no port %d, they begin with 1; try: --ib-port 1", o.IBPort)
	}
	if o.Timeout <= 0 {
		return Usagef("a timeout of %v leaves no time; try: --timeout 30s", o.Timeout)
	}
	return nil
}

func (o *ClientOptions) check() error {
	if err := o.JobOptions.check(); err != nil {
		return err
	}
	return o.Options.check()
}

func (o *JobOptions) check() error {
	if o.Size < 1 {
		return Usagef("a buffer of %d bytes cannot be had; try: --size 1 or more", int64(o.Size))
	}
	return o.Size.addressable("--size")
}

func (o *ServerOptions) check() error {
	if o.MaxClients < 1 {
		return Usagef("--max-clients %d lets nobody in; try: --max-clients 1 or more", o.MaxClients)
	}
	if o.MaxSize < 1 {
		return Usagef("a server whose clients may ask for %d bytes can serve none; try: --max-size %v", int64(o.MaxSize), DefaultMaxSize)
	}
	if err := o.MaxSize.addressable("--max-size"); err != nil {
		return err
	}
	if o.MaxFile < 0 {
		return Usagef("a file of at most %d bytes cannot be had; try: --max-file %v", int64(o.MaxFile), DefaultMaxFile)
	}
	w, err := findWire(o.Wire)
	if err != nil {
		return err
	}
	for _, name := range o.Allow {
		if _, err := w.find(name); err != nil {
			return Usagef("--allow: %w", err)
		}
	}
	if err := o.Options.check(); err != nil || w.isNative() {
		return err
	}
	if err := o.JobOptions.check(); err != nil {
		return err
	}
	_, err = o.half(w) // what is wrong for every client
	return err
}

// half is a half of the job of a format that is another program's, as each of its
// clients gets one.
func (o *ServerOptions) half(w wire) (half, error) {
	j, err := w.find(o.Job)
	if err != nil {
		return nil, err
	}
	return j.server(visit{ServerOptions: *o})
}

// config is the part of a connection's configuration that no job changes, but for
// the device.
func (o *Options) config(log *slog.Logger) rc.Config {
	return rc.Config{
		Port: o.IBPort, GIDIndex: o.GIDIndex, MTU: o.MTU,
		Program: o.Program, Timeout: o.Timeout, Logger: log,
	}
}
