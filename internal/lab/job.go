// What a job is, and the list of them.

package lab

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// Options are what both ends of a job may choose.
type Options struct {
	Device   string // "" takes the first
	IBPort   uint8  // the device's port; 0 is 1
	GIDIndex *int   // nil chooses
	MTU      int    // path MTU in bytes; 0 is the port's active one
	Size     int    // of each buffer, in bytes
	PCAP     string // file for the packets of a soft device; "" captures nothing
	Timeout  time.Duration
	Program  string
	Logger   *slog.Logger
}

// half is one end's part in a job. A half is used for one connection.
type half interface {
	// prepare registers memory and posts receives, with the queue pair in INIT.
	prepare(*rc.Conn) error
	// run does the job, with both queue pairs in RTS.
	run(context.Context, *rc.Conn) error
}

// job is a name and its two halves. The peer's parameters come from its hello.
type job struct {
	client func(ClientOptions) half
	server func(ServerOptions, map[string]string) (half, error)
}

var jobs = map[string]job{
	"send": {client: newSendClient, server: newSendServer},
}

// find looks a job up by name; the error lists what there is.
func find(name string) (job, error) {
	if j, ok := jobs[name]; ok {
		return j, nil
	}
	return job{}, fmt.Errorf("there is no job %q here; try: %s", name, strings.Join(slices.Sorted(maps.Keys(jobs)), ", "))
}

// config is the part of a connection's configuration that no job changes.
func (o *Options) config(dev *verbs.Device, log *slog.Logger) rc.Config {
	return rc.Config{
		Device: dev, Port: o.IBPort, GIDIndex: o.GIDIndex, MTU: o.MTU,
		Program: o.Program, Timeout: o.Timeout, Logger: log,
		Params: map[string]string{paramSize: strconv.Itoa(o.Size)},
	}
}

// paramSize is the hello's parameter that tells the size of an end's buffers.
const paramSize = "size"

// peerSize is the size of the peer's buffers, in bytes.
func peerSize(hello oob.Hello) (int, error) {
	n, err := strconv.Atoi(hello.Params[paramSize])
	if err != nil || n < 1 {
		return 0, fmt.Errorf("the peer's hello has size %q, which is no number of bytes; try: a peer of this program's version", hello.Params[paramSize])
	}
	return n, nil
}

// MaxSize is the largest buffer that an end may ask for, in bytes.
const MaxSize = 1 << 30

// check refuses choices that cannot work, before anything is opened.
func (o *Options) check() error {
	if o.Size < 1 || o.Size > MaxSize {
		return fmt.Errorf("a buffer of %d bytes cannot be had; try: --size from 1 to %d", o.Size, MaxSize)
	}
	return nil
}

// openDevice opens the device and looks at what the run will need of it, so that
// a wrong port, GID index or MTU is told before a peer is involved.
func (o *Options) openDevice(log *slog.Logger) (*verbs.Device, error) {
	dev, err := verbs.Open(o.Device)
	if err != nil {
		return nil, err
	}
	if err := o.inspect(dev, log); err != nil {
		closeAll(&err, dev)
		return nil, err
	}
	return dev, nil
}

func (o *Options) inspect(dev *verbs.Device, log *slog.Logger) error {
	why := "asked for"
	if o.Device == "" {
		why = "the first there is"
		if _, err := verbs.Devices(); err != nil {
			why += "; " + err.Error()
		}
	}
	tell(log, "slow", "device.opened", "ibv_open_device", "open device "+dev.Info().String(), slog.String("why", why))
	if err := o.config(dev, log).Check(dev); err != nil {
		return err
	}
	number := max(o.IBPort, 1)
	port, err := dev.QueryPort(number)
	if err != nil {
		return err
	}
	tell(log, "slow", "port.queried", "ibv_query_port", fmt.Sprintf("port %d", number),
		slog.String("state", port.State.String()), slog.String("link_layer", port.LinkLayer.String()),
		slog.Int("active_mtu", port.ActiveMTU.Bytes()), slog.Int("max_mtu", port.MaxMTU.Bytes()))
	return nil
}

// untilFatal makes a context that ends, with the reason, when the device does: who
// then keeps it open holds up its removal. Each event is heard.
func untilFatal(ctx context.Context, dev *verbs.Device, heard func(verbs.AsyncEvent)) (until context.Context, stop func()) {
	until, end := context.WithCancelCause(ctx)
	unsubscribe := dev.Subscribe(func(e verbs.AsyncEvent) {
		heard(e)
		if e.Type == verbs.EventDeviceFatal {
			end(&rc.AsyncError{Device: dev.Name(), Event: e})
		}
	})
	return until, func() {
		unsubscribe()
		end(nil)
	}
}

// tell logs one event of a job with the attributes that package rc documents.
func tell(log *slog.Logger, path, event, verb, text string, attrs ...slog.Attr) {
	head := []slog.Attr{slog.String("event", event)}
	if verb != "" {
		head = append(head, slog.String("verb", verb))
	}
	head = append(head, slog.String("path", path))
	log.LogAttrs(context.Background(), slog.LevelInfo, text, append(head, attrs...)...)
}

// closeAll closes what a run opened. The first error stands: the run's own, if it
// has one, since what follows it is mostly its consequence.
func closeAll(err *error, closers ...io.Closer) {
	for _, c := range closers {
		if cerr := c.Close(); cerr != nil && *err == nil {
			*err = cerr
		}
	}
}
