// Capturing: each packet that a device sends and receives, handed to a function.

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

// Capture calls packet for every packet that a soft device sends, and for every sound
// one that the device receives. ip is the packet from its IP header to its ICRC, as a pcap
// file of LINKTYPE_RAW has it; ip is valid during the call. at is the time of the call.
//
// The calls come from one goroutine at a time, and the device waits for each: a slow
// function makes a slow device. The function must not call the device. An error of packet
// ends the calls.
//
// stop ends the capture: packet is not called after it. stop returns the error of packet,
// each time that it is called. Closing the device ends the capture too and returns that error.
// Capture fails with EOPNOTSUPP for a device of another package, and with EBUSY for a
// device that is being captured.
func Capture(dev *verbs.Device, packet func(at time.Time, ip []byte) error) (stop func() error, err error) {
	d, ok := dev.Provider().(*device)
	if !ok {
		return nil, notSoft(dev)
	}
	if !d.capture.begin(packet) {
		return nil, errors.WithMessage(syscall.EBUSY, dev.Name()+" is being captured already; try: ending that capture")
	}
	d.setTap(d.capture.tap)
	return sync.OnceValue(func() error {
		d.setTap(nil)
		return d.capture.stop()
	}), nil
}

// CanCapture says whether Capture would take a device, nil if so: to be asked
// before a file is made for it.
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

// capture is a capture under way, or none.
type capture struct {
	mu     sync.Mutex
	packet func(at time.Time, ip []byte) error // nil without a capture
	buf    []byte                              // of one packet
	err    error                               // the first
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

// stop ends the capture and returns what went wrong with it.
func (c *capture) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	c.packet, c.err = nil, nil
	return err
}
