// Capturing: calling a function for each packet that a device sends or receives.

package softroce

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
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
	return CaptureOnly(dev, nil, packet)
}

// CaptureOnly is Capture of those packets for which wanted returns true. A packet that is not wanted
// costs the call of wanted and nothing else: it is not copied, and the device does not wait. to and qpn
// are the packet's destination: a multicast address, or the address of dev or of its peer without a zone,
// and the number of the queue pair there. IPv4 addresses have 4 bytes.
//
// Several calls of wanted may run at once, also while packet runs, and one may end after stop returns.
// wanted must not call the device. A nil wanted wants all packets.
func CaptureOnly(dev *verbs.Device, wanted func(to netip.Addr, qpn uint32) bool, packet func(at time.Time, ip []byte) error) (stop func() error, err error) {
	d, ok := verbs.ProviderOf(dev).(*device)
	if !ok {
		return nil, notSoft(dev)
	}
	if !d.capture.begin(&sink{wanted, packet}) {
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
	if _, ok := verbs.ProviderOf(dev).(*device); !ok {
		return notSoft(dev)
	}
	return nil
}

// Notes returns what this host refuses to a soft device, such as segmentation offload, and what the device does instead: a
// sentence each. It returns nil for other devices.
func Notes(dev *verbs.Device) (notes []string) {
	d, ok := verbs.ProviderOf(dev).(*device)
	if !ok {
		return nil
	}
	for _, r := range d.receivers {
		for _, note := range r.link.Status().Notes {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
	}
	return notes
}

func notSoft(dev *verbs.Device) error {
	return errors.WithMessagef(syscall.EOPNOTSUPP, "%s is not a soft device; try: tcpdump -i IFACE udp port 4791", dev.Name())
}

func (d *device) setTap(tap link.Tap) {
	d.groups.setTap(tap)
	for _, r := range d.receivers {
		r.link.SetTap(tap)
	}
}

// capture is the running capture, if any.
type capture struct {
	sink atomic.Pointer[sink] // nil if no capture runs; written under mu
	mu   sync.Mutex
	buf  []byte // holds one packet
	err  error  // the first error
}

// sink has the functions of one capture.
type sink struct {
	wanted func(to netip.Addr, qpn uint32) bool // nil: all packets are wanted
	packet func(at time.Time, ip []byte) error
}

func (c *capture) begin(s *sink) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active() {
		return false
	}
	c.sink.Store(s)
	c.err = nil
	return true
}

func (c *capture) active() bool { return c.sink.Load() != nil }

// tap gives a packet to the sink. It takes the lock and copies only if the packet is wanted.
func (c *capture) tap(_ bool, f packet.Frame, raw []byte) {
	s := c.sink.Load()
	if s == nil || s.wanted != nil && !s.wanted(f.Dst.Addr().Unmap().WithZone(""), (*packet.BTH)(raw).DestQPN()) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sink.Load() != s || c.err != nil {
		return
	}
	if c.buf, c.err = f.Append(c.buf[:0], raw); c.err == nil {
		c.err = s.packet(time.Now(), c.buf)
	}
}

// stop ends the capture and returns its error.
func (c *capture) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.err
	c.sink.Store(nil)
	c.err = nil
	return err
}
