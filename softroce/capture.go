// Capturing: calling a function for each packet that a device sends or receives.

package softroce

import (
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

// Capture calls packet for each packet that a soft device sends, and for each valid packet
// that it receives. ip is the packet from its IP header to its ICRC, as in a pcap file of
// LINKTYPE_RAW. ip is valid only during the call. at is the time of the call.
//
// Only one call runs at a time, and the device waits for it: a slow function slows the device
// down. The function must not call the device. After packet returns an error, it is not
// called again.
//
// stop ends the capture: packet is not called afterwards. stop returns the error of packet,
// and returns the same error if it is called again. Closing the device ends the capture too;
// then Close returns that error. Capture fails with EOPNOTSUPP if dev is not a soft device,
// and with EBUSY if a capture of dev is running.
func Capture(dev *verbs.Device, packet func(at time.Time, ip []byte) error) (stop func() error, err error) {
	d, ok := dev.Provider().(*device)
	if !ok {
		return nil, notSoft(dev)
	}
	if !d.capture.begin(packet) {
		return nil, errors.WithMessage(syscall.EBUSY, dev.Name()+" is being captured already; try: end that capture first")
	}
	d.setTap(d.capture.tap)
	return sync.OnceValue(func() error {
		d.setTap(nil)
		return d.capture.stop()
	}), nil
}

// CanCapture returns nil if dev is a soft device, and otherwise the error that Capture would
// return. Call it before creating a file for the packets.
func CanCapture(dev *verbs.Device) error {
	if _, ok := dev.Provider().(*device); !ok {
		return notSoft(dev)
	}
	return nil
}

func notSoft(dev *verbs.Device) error {
	return errors.WithMessagef(syscall.EOPNOTSUPP, "%s is not a soft device; try: tcpdump -i IFACE udp port 4791", dev.Name())
}

func (d *device) setTap(tap link.Tap) {
	d.groups.setTap(tap)
	for _, p := range d.ports {
		if p != nil {
			p.link.SetTap(tap)
		}
	}
}

// capture is the running capture, if any.
type capture struct {
	mu     sync.Mutex
	packet func(at time.Time, ip []byte) error // nil if no capture runs
	buf    []byte                              // holds one packet
	err    error                               // the first error
}

func (c *capture) begin(packet func(at time.Time, ip []byte) error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.packet != nil {
		return false
	}
	c.packet, c.err = packet, nil
	return true
}

func (c *capture) active() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.packet != nil
}

func (c *capture) tap(_ bool, f packet.Frame, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.packet == nil || c.err != nil {
		return
	}
	if c.buf, c.err = f.Append(c.buf[:0], raw); c.err == nil {
		c.err = c.packet(time.Now(), c.buf)
	}
}

// stop ends the capture and returns its error.
func (c *capture) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	c.packet, c.err = nil, nil
	return err
}
