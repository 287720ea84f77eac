// The device of Conns whose Config has none. All of them share it.

package rnet

import (
	"sync"

	"github.com/rawverbs/rawverbs/verbs"
)

// defaultDevice is the first device, opened for the first user and closed after the last one.
var defaultDevice struct {
	sync.Mutex
	dev   *verbs.Device
	users int
}

// useDevice returns the device to use, and a function to call when it is not used any more.
func useDevice(given *verbs.Device) (dev *verbs.Device, free func(), err error) {
	if given != nil {
		return given, func() {}, nil
	}
	d := &defaultDevice
	d.Lock()
	defer d.Unlock()
	if d.dev == nil {
		if d.dev, err = verbs.Open(""); err != nil {
			return nil, nil, err
		}
	}
	d.users++
	return d.dev, sync.OnceFunc(leaveDevice), nil
}

func leaveDevice() {
	d := &defaultDevice
	d.Lock()
	defer d.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	// EBUSY if rc could not free an object; the device then stays open for the next user.
	if d.dev.Close() == nil {
		d.dev = nil
	}
}
