// The device of a run: opened, looked at, and watched.

package run

import (
	"context"
	stderrors "errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/sync/serial"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// openDevice opens the device of cfg and checks what the run will need of it. So a wrong
// port, GID index or MTU, or too deep a queue, is reported before a peer is involved.
func (o *Options) openDevice(cfg *rc.Config, with verbs.OpenOptions) (*verbs.Device, error) {
	dev, err := verbs.OpenWith(o.Device, with)
	if err != nil {
		return nil, err
	}
	if err := o.inspect(dev, cfg); err != nil {
		kit.CloseAll(&err, dev)
		return nil, err
	}
	cfg.Device = dev
	return dev, nil
}

func (o *Options) inspect(dev *verbs.Device, cfg *rc.Config) error {
	why := "asked for"
	if o.Device == "" {
		_, err := verbs.Devices()
		why = whyFirst(dev.Info(), err)
	}
	event.DeviceOpened.Log(cfg.Logger, "open device "+dev.Info().String(), slog.String("why", why))
	if err := cfg.Check(dev); err != nil {
		return err
	}
	port, err := dev.QueryPort(o.IBPort)
	if err != nil {
		return err
	}
	event.PortQueried.Log(cfg.Logger, fmt.Sprintf("port %d", o.IBPort),
		slog.String("state", port.State.String()), slog.String("link_layer", port.LinkLayer.String()),
		slog.Int("active_mtu", port.ActiveMTU.Bytes()), slog.Int("max_mtu", port.MaxMTU.Bytes()))
	return nil
}

// whyFirst says why a device was chosen when none was named. listErr is the error of
// [verbs.Devices]. A host without RDMA is no problem; a device that cannot be opened is.
func whyFirst(info verbs.DeviceInfo, listErr error) string {
	switch {
	case listErr != nil && !errors.Is(listErr, stderrors.ErrUnsupported):
		return "the first device; " + listErr.Error()
	case info.InProcess:
		return "no RDMA device; using " + info.Name
	}
	return "the first device"
}

// untilFatal makes a context that ends, with the reason, when the device fails: the device
// cannot be removed while it is open. The function heard is called with each event, in a
// goroutine of its own, because it may block, as a Logger can.
func untilFatal(ctx context.Context, dev *verbs.Device, heard func(verbs.AsyncEvent)) (until context.Context, stop func()) {
	until, end := context.WithCancelCause(ctx)
	var hearing serial.Queue
	unsubscribe := dev.Subscribe(func(e verbs.AsyncEvent) {
		hearing.Do(func() { heard(e) })
		if e.Type == verbs.EventDeviceFatal {
			end(&rc.AsyncError{Device: dev.Name(), Event: e})
		}
	})
	return until, func() {
		unsubscribe()
		hearing.Wait()
		end(nil)
	}
}

// checkEvery is how often a server checks whether clients can connect.
const checkEvery = 5 * time.Second

// portWatch logs, as warnings, that clients can no longer connect to a server, and that they can again. A device has no event for
// the address of --listen, which may not be its own, so watch also looks by itself.
type portWatch struct {
	log   *slog.Logger
	check func() error // why clients cannot connect; at first they can

	mu   sync.Mutex
	down bool
}

// look checks whether clients can connect. now says so, unless they could before and still can.
func (w *portWatch) look() (now string, changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	down := w.check()
	was := w.down
	w.down = down != nil
	switch {
	case down != nil:
		now = "no client can connect: " + down.Error()
	case was:
		now = "clients can connect again"
	}
	return now, was != w.down
}

// heard logs an event of the device.
func (w *portWatch) heard(e verbs.AsyncEvent) {
	level, attrs := slog.LevelInfo, []slog.Attr{slog.Bool("fatal", e.Fatal())}
	if e.Port != 0 {
		if now, _ := w.look(); now != "" {
			level, attrs = slog.LevelWarn, append(attrs, slog.String("so", now))
		}
	}
	event.AsyncEvent.LogAt(level, w.log, e.String(), attrs...)
}

// watch logs the changes without an event until ctx ends.
func (w *portWatch) watch(ctx context.Context) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now, changed := w.look(); changed {
				event.ServerReachable.LogAt(slog.LevelWarn, w.log, now)
			}
		}
	}
}
