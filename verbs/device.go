// Devices: listing them, opening one, reading its attributes.

package verbs

import (
	stderrors "errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// Devices lists the devices of every provider, in the providers' order. If two providers have a
// device of the same name, the list has only the one that [Open] opens (`rawverbs run` gives libibverbs a soft0, too). The error names the
// providers that failed; devices of the others are still returned. Each failure is an
// *[Error]: errors.ErrUnsupported where libibverbs or the kernel's RDMA is missing.
//
// Implements: struct ibv_device **ibv_get_device_list(int *num_devices),
// void ibv_free_device_list(struct ibv_device **list), const char *ibv_get_device_name(struct ibv_device *device),
// __be64 ibv_get_device_guid(struct ibv_device *device), int ibv_get_device_index(struct ibv_device *device)
func Devices() ([]DeviceInfo, error) {
	var all []DeviceInfo
	var reasons providerErrors
	for _, p := range registered() {
		devices, err := p.Devices()
		if err != nil {
			reasons = append(reasons, fail("ibv_get_device_list", p.Name(), "", err))
			continue
		}
		for _, d := range devices {
			if !slices.ContainsFunc(all, func(listed DeviceInfo) bool { return listed.Name == d.Name }) {
				all = append(all, d)
			}
		}
	}
	if len(reasons) > 0 {
		return all, reasons
	}
	return all, nil
}

// providerErrors says why providers could not list their devices.
type providerErrors []error

func (e providerErrors) Error() string {
	var causes, remedies []string
	for _, err := range e {
		cause, remedy := cutRemedy(err)
		causes, remedies = append(causes, cause), append(remedies, remedy)
	}
	return withRemedies(strings.Join(causes, "; "), remedies...)
}

// Unwrap returns the error of each provider, for errors.Is and errors.As.
func (e providerErrors) Unwrap() []error { return e }

// Device is an open device (struct ibv_context). [Open] makes it; it is valid until Close.
// Its answers are snapshots: ports, addresses and cables can change at any time.
//
// All methods of a Device may be called at the same time by several goroutines, Close included. For
// the function given to [Device.Subscribe], see there. After Close, Name and Info still
// work; methods that ask the device return net.ErrClosed.
type Device struct {
	handle
	p    ProviderDevice
	info DeviceInfo
	wcs  *WCCounts // nil: completions are not counted

	vectors atomic.Uint32 // CQs made with AnyVector

	eventsOnce sync.Once
	events     *listeners
}

// Open opens the device with the given name, or the first device if name is "". A device may be
// opened several times. Objects made from different openings cannot be used together.
//
// ENODEV if the device does not exist; the error lists the existing devices, or the import that
// the program lacks. EACCES or EPERM if the user may not open the device. Package softroce
// describes what a soft device needs.
//
// Implements: struct ibv_context *ibv_open_device(struct ibv_device *device)
func Open(name string) (*Device, error) { return OpenWith(name, OpenOptions{}) }

// OpenOptions is what few programs need of [OpenWith]. The zero value is what [Open] uses.
type OpenOptions struct {
	// Logger gets every verb called on the device, and on the objects made from it, at level
	// Debug. The message is the C function's name; the attributes are "device", "object" (its
	// kind), "detail" (the arguments), "took", and "error" if the call failed. Posting, polling
	// and waiting are not logged. The detail of ibv_open_device says how they call C (see the
	// package comment). An object that is garbage collected without Close is logged at level
	// Warn. If Logger is nil, only such objects are logged, to slog.Default.
	Logger *slog.Logger

	// WCs counts the completions that the program polls from CQs of the device. nil: they are
	// not counted.
	WCs *WCCounts
}

// OpenWith is [Open] with options.
//
// Implements: struct ibv_context *ibv_open_device(struct ibv_device *device)
func OpenWith(name string, options OpenOptions) (*Device, error) {
	began := time.Now()
	devices, listErr := Devices()
	if name == "" {
		if len(devices) == 0 {
			return nil, noDevice("", devices, listErr)
		}
		name = devices[0].Name
	}
	for _, provider := range registered() {
		p, err := provider.Open(name)
		if err == syscall.ENODEV || errors.Is(err, stderrors.ErrUnsupported) { // ENOSYS is ErrUnsupported, too
			continue // the name is not this provider's, or it has no devices at all
		}
		if err != nil {
			return nil, fail("ibv_open_device", name, "", err)
		}
		d := &Device{p: p, info: DeviceInfo{Name: name, Provider: provider.Name()}, events: &listeners{}}
		if unlisted, ok := p.(ProviderDeviceInformer); ok {
			d.info = unlisted.Info()
		}
		for _, info := range devices {
			if info.Name == name {
				d.info = info
			}
		}
		d.kind, d.device, d.log, d.wcs = "device", name, options.Logger, options.WCs
		detail := d.info.Provider
		if c, ok := p.(interface{ calls() string }); ok {
			detail += ", " + c.calls()
		}
		d.logCall("ibv_open_device", detail, began, nil)
		d.watchLeak()
		return d, nil
	}
	return nil, noDevice(name, devices, listErr)
}

// The software device is in a package that a program must import.
const (
	softImport   = `import _ "github.com/rawverbs/rawverbs/softroce"`
	softProvider = "softroce"
)

func isSoft(device string) bool { return device == "soft0" || strings.HasPrefix(device, "soft:") }

// noDevice makes the error for a missing device. The error lists the devices that exist.
func noDevice(name string, devices []DeviceInfo, listErr error) error {
	e := &Error{Op: "ibv_open_device", Device: name, Errno: syscall.ENODEV}
	list := registered()
	imported := slices.ContainsFunc(list, func(p Provider) bool { return p.Name() == softProvider })
	switch {
	case len(list) == 0:
		e.Detail = "this program has no provider of devices"
		e.Hint = softImport + " for soft0; for RDMA devices a build on Linux with CGO_ENABLED=1 and a C compiler"
	case isSoft(name) && !imported:
		e.Detail = "this program does not import the software device"
		e.Hint = softImport
	case len(devices) > 0:
		var names []string
		for _, d := range devices {
			names = append(names, d.String())
		}
		e.Detail = "no device of that name"
		e.Err = listErr
		e.Hint = "one of those that exist: " + strings.Join(names, ", ")
	default:
		e.Detail = "there is no RDMA device"
		e.Err = listErr
		e.Hint = "loading a driver: in software, modprobe rdma_rxe and rdma link add rxe0 type rxe netdev IFACE; " +
			"the provider package (ibverbs-providers); in a container, mapping /dev/infiniband/uverbs*"
		if !imported {
			e.Hint += "; without any of these, " + softImport + " for soft0"
		}
	}
	return e
}

// Info describes the device as [Devices] does. A device that [Devices] does not list describes
// itself.
func (d *Device) Info() DeviceInfo { return d.info }

// Name is the device's name: "rxe0".
func (d *Device) Name() string { return d.info.Name }

// Run returns how many packets of one length, with mtu bytes of payload each, the device sends together at about the cost of
// one, as the software device does in one datagram of the host. The last packet may be shorter. It returns 0 for devices on which
// packets cost the same alone, such as hardware: there a long message is best.
func (d *Device) Run(mtu int) (packets int) {
	if p, ok := d.p.(ProviderRuns); ok {
		packets = p.Run(mtu)
	}
	return packets
}

// Query reads the device's limits. net.ErrClosed after Close.
//
// Implements: int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
func (d *Device) Query() (DeviceAttr, error) {
	return query(&d.handle, "ibv_query_device", "", d.p.QueryDevice)
}

// QueryPort reads a port's attributes. Ports count from 1. EINVAL if the device has no such
// port.
//
// Implements: int ibv_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *port_attr)
func (d *Device) QueryPort(port uint8) (PortAttr, error) {
	return query(&d.handle, "ibv_query_port", fmt.Sprintf("port %d", port), func() (PortAttr, error) { return d.p.QueryPort(port) })
}

// QueryGIDTable lists the filled slots of all ports' GID tables, sorted by port and index.
// Slots fill and become empty when addresses and links change.
//
// Implements: ssize_t ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max_entries, uint32_t flags)
func (d *Device) QueryGIDTable() ([]GIDEntry, error) {
	return query(&d.handle, "ibv_query_gid_table", "", d.p.QueryGIDTable)
}

// QueryPKey reads a slot of a port's partition key table, in host order. 0 means that the slot
// is empty; 0xffff is the key of the default partition. EINVAL, or ENOENT from some drivers, if
// the port or the index does not exist.
//
// Implements: int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
func (d *Device) QueryPKey(port uint8, index int) (uint16, error) {
	return query(&d.handle, "ibv_query_pkey", fmt.Sprintf("port %d, index %d", port, index), func() (uint16, error) { return d.p.QueryPKey(port, index) })
}

// Subscribe calls f for every asynchronous event of the device, one at a time, until cancel
// returns. One goroutine calls f for all events, so f must not block, and must not call Subscribe
// or cancel. The first subscriber also gets the events since the device was opened, the latest 1024
// at most. Events are acknowledged before f gets them. A new subscriber gets DEVICE_FATAL if the
// device has already reported it, or if events can no longer be read. Closing the device ends all
// subscriptions, but does not wait for a running call of f.
//
// Implements: int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event),
// void ibv_ack_async_event(struct ibv_async_event *event)
func (d *Device) Subscribe(f func(AsyncEvent)) (cancel func()) {
	cancel = d.events.add(f)
	d.eventsOnce.Do(func() { go pumpEvents(d.p, d.events) })
	return cancel
}

// pumpEvents delivers events until the device is closed. It refers to the provider and the
// listeners, not to the Device, so that a Device without Close can be collected and reported.
func pumpEvents(p ProviderDevice, to *listeners) {
	for {
		event, err := p.NextEvent()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				to.deliver(AsyncEvent{Type: EventDeviceFatal})
			}
			return
		}
		to.deliver(event)
	}
}

// listeners are the subscribers of one device.
type listeners struct {
	mu    sync.Mutex
	next  int
	fs    map[int]func(AsyncEvent)
	fatal bool // DEVICE_FATAL was delivered
}

func (l *listeners) add(f func(AsyncEvent)) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fs == nil {
		l.fs = make(map[int]func(AsyncEvent))
	}
	id := l.next
	l.next++
	l.fs[id] = f
	if l.fatal {
		go l.deliverTo(id, AsyncEvent{Type: EventDeviceFatal})
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.fs, id)
	}
}

func (l *listeners) deliver(e AsyncEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatal = l.fatal || e.Type == EventDeviceFatal
	for _, f := range l.fs {
		f(e)
	}
}

func (l *listeners) deliverTo(id int, e AsyncEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.fs[id]; f != nil {
		f(e)
	}
}

// Close closes the device and ends its subscriptions. EBUSY while it has protection domains,
// completion channels or CQs; the error counts them. Closing again does nothing.
//
// Implements: int ibv_close_device(struct ibv_context *context)
func (d *Device) Close() error {
	if d == nil || d.p == nil {
		return nil
	}
	return d.close("ibv_close_device", d.p.Close)
}
