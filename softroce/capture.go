// Capturing: what a device sends and receives, as a pcap file.

package softroce

import (
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
	"github.com/rawverbs/rawverbs/verbs"
)

// Capture writes every packet that a soft device sends and every sound one that
// it receives to w, in the pcap format with IP packets (LINKTYPE_RAW): Wireshark
// and tcpdump read it. w gets one packet a Write, from one goroutine at a time, which
// waits for it: a slow writer makes a slow device. stop ends it, after which w is
// written no more, and returns the first error of writing; so does closing the device.
// Stopping again returns the same. The error of Capture is EOPNOTSUPP for a device that
// is not of this package, and EBUSY if the device is being captured.
func Capture(dev *verbs.Device, w io.Writer) (stop func() error, err error) {
	d, ok := dev.Provider().(*device)
	if !ok {
		return nil, notSoft(dev)
	}
	out := pcapgo.NewWriterNanos(w)
	if !d.capture.begin(out) {
		return nil, errors.WithMessage(syscall.EBUSY, dev.Name()+" is being captured already; try: ending that capture")
	}
	if err := out.WriteFileHeader(captureLength, layers.LinkTypeRaw); err != nil {
		_ = d.capture.stop() // it has written nothing
		return nil, errors.WithMessage(err, "pcap header")
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

// captureLength is the longest packet that the file can hold.
const captureLength = uint32(wire.MaxPacket + 60 + 8)

func (d *device) setTap(tap link.Tap) {
	for _, p := range d.ports {
		if p != nil {
			p.link.SetTap(tap)
		}
	}
}

// capture is a capture under way, or none.
type capture struct {
	mu  sync.Mutex
	out *pcapgo.Writer
	buf []byte // of one packet
	err error  // the first
}

func (c *capture) begin(out *pcapgo.Writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out != nil {
		return false
	}
	c.out, c.err = out, nil
	return true
}

func (c *capture) tap(_ bool, f wire.Frame, packet []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.out == nil || c.err != nil {
		return
	}
	if c.buf, c.err = f.Append(c.buf[:0], packet); c.err != nil {
		return
	}
	c.err = c.out.WritePacket(gopacket.CaptureInfo{Timestamp: time.Now(), CaptureLength: len(c.buf), Length: len(c.buf)}, c.buf)
}

// stop ends the capture and returns what went wrong with it.
func (c *capture) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	c.out, c.err = nil, nil
	return err
}
