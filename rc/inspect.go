// Checking a device before the peer is involved.

package rc

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// inspected has the attributes of a device, and the path MTU that follows from them.
type inspected struct {
	device verbs.DeviceAttr
	port   verbs.PortAttr
	gids   []verbs.GIDEntry
	mtu    int // bytes
}

// Check returns an error, with a remedy, if a device cannot serve this Config: its queues, port,
// GID table or MTU. Dial and Connect check too; a listening program can check earlier.
func (c Config) Check(dev *verbs.Device) error {
	c = c.complete()
	_, err := c.inspect(dev, 1)
	return err
}

func (c *Config) inspect(dev *verbs.Device, conns int) (inspected, error) {
	var found inspected
	var err error
	if found.device, err = dev.Query(); err != nil {
		return found, err
	}
	if err := c.checkQueues(dev, found.device, conns); err != nil {
		return found, err
	}
	if found.port, err = dev.QueryPort(c.Port); err != nil {
		return found, err
	}
	if found.port.State != verbs.PortActive {
		return found, errPortDown(dev.Name(), c.Port, found.port.State)
	}
	if found.gids, err = dev.QueryGIDTable(); err != nil {
		return found, err
	}
	if _, _, err := verbs.ChooseGID(found.gids, c.gidSelection()); err != nil {
		return found, errors.WithMessage(err, dev.Name())
	}
	found.mtu, err = c.chooseMTU(dev, found.port)
	return found, err
}

// gidSelection returns the Config's choice of a GID, without the addresses of both ends.
func (c *Config) gidSelection() verbs.GIDSelection {
	return verbs.GIDSelection{Port: c.Port, Index: c.GIDIndex}
}

func (c *Config) chooseMTU(dev *verbs.Device, port verbs.PortAttr) (int, error) {
	active := port.ActiveMTU.Bytes()
	if c.MTU == 0 {
		return active, nil
	}
	if _, ok := qpstate.MTUFor(c.MTU); !ok || c.MTU > active {
		return 0, errors.Errorf("path MTU %d is not one that port %d of %s can carry; try: 256, 512, 1024, 2048 or 4096, at most the active MTU of %d (a larger MTU of the network interface raises it)",
			c.MTU, c.Port, dev.Name(), active)
	}
	return c.MTU, nil
}
