// The device of a run: opened, looked at, and watched.

package lab

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// openDevice opens the device of cfg and looks at what the run will need of it, so
// that a wrong port, GID index or MTU, or too deep a queue, is told before a peer is
// involved.
func (o *Options) openDevice(cfg *rc.Config) (*verbs.Device, error) {
	dev, err := verbs.Open(o.Device)
	if err != nil {
		return nil, err
	}
	if err := o.inspect(dev, cfg); err != nil {
		closeAll(&err, dev)
		return nil, err
	}
	cfg.Device = dev
	return dev, nil
}

func (o *Options) inspect(dev *verbs.Device, cfg *rc.Config) error {
	why := "asked for"
	if o.Device == "" {
		why = "the first there is"
		if _, err := verbs.Devices(); err != nil {
			why += "; " + err.Error()
		}
	}
	tell(cfg.Logger, "slow", "device.opened", "ibv_open_device", "open device "+dev.Info().String(), slog.String("why", why))
	if err := cfg.Check(dev); err != nil {
		return err
	}
	port, err := dev.QueryPort(o.IBPort)
	if err != nil {
		return err
	}
	tell(cfg.Logger, "slow", "port.queried", "ibv_query_port", fmt.Sprintf("port %d", o.IBPort),
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
