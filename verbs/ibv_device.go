//go:build linux && cgo && !nolibibverbs

// The C wall: libibverbs as a provider. Only the files ibv_*.go use import "C". This file lists, opens
// and queries devices.

package verbs

// #cgo LDFLAGS: -ldl
// #include "ibv_shim.h"
// #include "ibv_load.h"
import "C"

import (
	"encoding/binary"
	"math/bits"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/sync/eventqueue"
)

func init() { Register(ibvProvider{}) }

// ibvProvider serves the kernel's devices through libibverbs.
type ibvProvider struct{}

func (ibvProvider) Name() string { return "libibverbs" }

func (ibvProvider) Devices() (infos []DeviceInfo, err error) {
	err = eachDevice(func(info DeviceInfo, _ *C.struct_ibv_device) bool {
		infos = append(infos, info)
		return true
	})
	return infos, err
}

func (ibvProvider) Open(name string) (ProviderDevice, error) {
	var ctx *C.struct_ibv_context
	opened := syscall.Errno(syscall.ENODEV)
	err := eachDevice(func(info DeviceInfo, dev *C.struct_ibv_device) bool {
		if info.Name != name {
			return true
		}
		opened = syscall.Errno(C.rv_open_device(dev, &ctx))
		return false
	})
	if err != nil {
		return nil, err
	}
	if opened == syscall.ENODEV && ctx == nil {
		return nil, syscall.ENODEV
	}
	if opened != 0 {
		return nil, opened
	}
	d := &ibvDevice{name: name, ctx: ctx, path: C.GoString(&ctx.device.dev_path[0])}
	d.gone = !d.listed() // a container may hide sysfs; then watch cannot see a removal
	d.queue.Init(func(e AsyncEvent) bool { return e.Type == EventDeviceFatal })
	if d.events, err = newFDWaiter(int(ctx.async_fd), "async events of "+name, d.readEvent); err != nil {
		C.rv_close_device(ctx)
		return nil, err
	}
	return d, nil
}

// eachDevice calls f with each device until f returns false. The pointer is valid only during the
// call. A kernel without RDMA gives ENOSYS.
func eachDevice(f func(DeviceInfo, *C.struct_ibv_device) bool) error {
	if err := loadIbv(); err != nil {
		return err
	}
	var list **C.struct_ibv_device
	var n C.int
	if err := errnoErr(C.rv_get_device_list(&list, &n)); err != nil {
		return err
	}
	defer C.ibv_free_device_list(list)
	for _, dev := range unsafe.Slice(list, int(n)) {
		info := DeviceInfo{
			Name:      C.GoString(C.ibv_get_device_name(dev)),
			Provider:  ibvProvider{}.Name(),
			NodeType:  NodeType(dev.node_type),
			Transport: Transport(dev.transport_type),
			GUID:      hostOrder64(uint64(C.ibv_get_device_guid(dev))),
			Index:     int(C.ibv_get_device_index(dev)),
		}
		if !f(info, dev) {
			return nil
		}
	}
	return nil
}

// loadIbv loads libibverbs once. Without libibverbs this provider has no devices, and other providers
// still work.
var loadIbv = sync.OnceValue(func() error {
	if reason := C.rv_load(); reason != nil {
		return errors.WithMessagef(syscall.EOPNOTSUPP, "libibverbs cannot be loaded (%s); try: install libibverbs1 and ibverbs-providers (on Fedora libibverbs), which RDMA devices need", C.GoString(reason))
	}
	return nil
})

// ibvDevice is struct ibv_context.
type ibvDevice struct {
	name   string
	ctx    *C.struct_ibv_context
	path   string // the device's directory in sysfs, which the kernel removes with the device
	events *fdWaiter
	cqs    ibvTable[*C.struct_ibv_cq, *ibvCQ]
	srqs   ibvTable[*C.struct_ibv_srq, *ibvSRQ]

	remapped remapped

	reading sync.Mutex // held while an event is read, and by Close
	closed  bool

	queue    eventqueue.Queue[AsyncEvent]
	watching sync.Once // starts watch

	// For the one goroutine in watch.
	read  C.struct_rv_event
	event AsyncEvent
	gone  bool
}

func (d *ibvDevice) QueryDevice() (DeviceAttr, error) {
	var a C.struct_ibv_device_attr
	if errno := syscall.Errno(C.rv_query_device(d.ctx, &a)); errno != 0 {
		return DeviceAttr{}, errno
	}
	return decodeDevice(&a), nil
}

func decodeDevice(a *C.struct_ibv_device_attr) DeviceAttr {
	return DeviceAttr{
		FirmwareVersion: C.GoString(&a.fw_ver[0]),
		NodeGUID:        hostOrder64(uint64(a.node_guid)),
		SysImageGUID:    hostOrder64(uint64(a.sys_image_guid)),
		MaxMRSize:       uint64(a.max_mr_size),
		PageSizeCap:     uint64(a.page_size_cap),
		VendorID:        uint32(a.vendor_id),
		VendorPartID:    uint32(a.vendor_part_id),
		HWVersion:       uint32(a.hw_ver),
		MaxQP:           int(a.max_qp),
		MaxQPWR:         int(a.max_qp_wr),
		CapFlags:        DeviceCap(a.device_cap_flags),
		MaxSGE:          int(a.max_sge),
		MaxSGERd:        int(a.max_sge_rd),
		MaxCQ:           int(a.max_cq),
		MaxCQE:          int(a.max_cqe),
		MaxMR:           int(a.max_mr),
		MaxPD:           int(a.max_pd),
		MaxQPRdAtom:     int(a.max_qp_rd_atom),
		MaxResRdAtom:    int(a.max_res_rd_atom),
		MaxQPInitRdAtom: int(a.max_qp_init_rd_atom),
		AtomicCap:       AtomicCap(a.atomic_cap),
		MaxMW:           int(a.max_mw),
		MaxAH:           int(a.max_ah),
		MaxSRQ:          int(a.max_srq),
		MaxSRQWR:        int(a.max_srq_wr),
		MaxSRQSGE:       int(a.max_srq_sge),
		MaxPKeys:        int(a.max_pkeys),
		MaxMcastGrp:     int(a.max_mcast_grp),
		MaxMcastQP:      int(a.max_mcast_qp_attach),
		MaxMcastTotalQP: int(a.max_total_mcast_qp_attach),
		LocalCAAckDelay: uint8(a.local_ca_ack_delay),
		PhysPortCnt:     int(a.phys_port_cnt),
	}
}

func (d *ibvDevice) QueryPort(port uint8) (PortAttr, error) {
	var a C.struct_ibv_port_attr
	if errno := syscall.Errno(C.rv_query_port(d.ctx, C.uint8_t(port), &a)); errno != 0 {
		return PortAttr{}, errno
	}
	return PortAttr{
		State:        PortState(a.state),
		MaxMTU:       MTU(a.max_mtu),
		ActiveMTU:    MTU(a.active_mtu),
		GIDTableLen:  int(a.gid_tbl_len),
		CapFlags:     uint32(a.port_cap_flags),
		MaxMsgSize:   uint32(a.max_msg_sz),
		PKeyTableLen: int(a.pkey_tbl_len),
		LID:          uint16(a.lid),
		SMLID:        uint16(a.sm_lid),
		LMC:          uint8(a.lmc),
		ActiveWidth:  uint8(a.active_width),
		ActiveSpeed:  uint8(a.active_speed),
		PhysState:    uint8(a.phys_state),
		LinkLayer:    LinkLayer(a.link_layer),
	}, nil
}

func (d *ibvDevice) QueryGIDTable() ([]GIDEntry, error) {
	attr, err := d.QueryDevice()
	if err != nil {
		return nil, err
	}
	slots := 0
	for port := 1; port <= attr.PhysPortCnt; port++ {
		p, err := d.QueryPort(uint8(port))
		if err != nil {
			return nil, err
		}
		slots += p.GIDTableLen
	}
	if slots == 0 {
		return nil, nil
	}
	table := make([]C.struct_ibv_gid_entry, slots)
	n := int(C.rv_query_gid_table(d.ctx, &table[0], C.size_t(slots)))
	if n < 0 {
		return nil, syscall.Errno(-n)
	}
	entries := make([]GIDEntry, n)
	for i, c := range table[:n] {
		entries[i] = GIDEntry{
			GID: GID(c.gid), Port: uint8(c.port_num), Index: int(c.gid_index),
			Type: GIDType(c.gid_type), IfIndex: int(c.ndev_ifindex),
		}
		if c.ndev_ifindex != 0 {
			if iface, err := net.InterfaceByIndex(int(c.ndev_ifindex)); err == nil {
				entries[i].Netdev = iface.Name // an error means another network namespace
			}
		}
	}
	return entries, nil
}

func (d *ibvDevice) QueryPKey(port uint8, index int) (uint16, error) {
	var be [2]byte
	if errno := syscall.Errno(C.rv_query_pkey(d.ctx, C.uint8_t(port), C.int(index), (*C.uint16_t)(unsafe.Pointer(&be)))); errno != 0 {
		return 0, errno
	}
	return binary.BigEndian.Uint16(be[:]), nil
}

func (d *ibvDevice) NextEvent() (AsyncEvent, error) {
	d.startWatch()
	e, ok := d.queue.Wait()
	if !ok {
		return AsyncEvent{}, net.ErrClosed
	}
	return e, nil
}

// startWatch reads events from now on. CreateCQ calls it, because only an event reports an overrun.
func (d *ibvDevice) startWatch() { d.watching.Do(func() { go d.watch() }) }

// watch reads events until the device is closed. If they can no longer be read, that is DEVICE_FATAL.
func (d *ibvDevice) watch() {
	for {
		e, err := d.readNext()
		if err == net.ErrClosed {
			return
		}
		if err != nil {
			d.queue.Put(AsyncEvent{Type: EventDeviceFatal})
			return
		}
		d.queue.Put(e)
	}
}

// goneCheck is how often readNext checks that the device still exists. A driver that cannot
// disconnect its users, such as rdma_rxe, does not report a removal. docs/design/removal.md has the
// details.
const goneCheck = time.Second

func (d *ibvDevice) readNext() (AsyncEvent, error) {
	for {
		if err := d.events.tick(goneCheck); err != nil {
			return AsyncEvent{}, err
		}
		err := d.events.wait()
		if err == errTick {
			if d.gone || d.listed() {
				continue
			}
			d.gone = true
			return AsyncEvent{Type: EventDeviceFatal}, nil
		}
		if err != nil {
			return AsyncEvent{}, err
		}
		return d.event, nil
	}
}

// readEvent reads an event without waiting. It finds the event's objects before it acknowledges the
// event, because after that other objects can get their addresses.
func (d *ibvDevice) readEvent() syscall.Errno {
	d.reading.Lock()
	defer d.reading.Unlock()
	if d.closed {
		return syscall.EAGAIN // Close ends the wait
	}
	if errno := syscall.Errno(C.rv_get_async_event(d.ctx, &d.read)); errno != 0 {
		return errno
	}
	d.event = d.decodeEvent()
	C.rv_ack_async_event(&d.read)
	return 0
}

// listed reports whether the kernel still offers the device to new users.
func (d *ibvDevice) listed() bool {
	_, err := os.Stat(d.path)
	return err == nil
}

func (d *ibvDevice) decodeEvent() AsyncEvent {
	event := AsyncEvent{Type: EventType(d.read._type), QPN: uint32(d.read.qpn), Port: uint8(d.read.port)}
	if cq, ok := d.cqs.find(d.read.cq); ok {
		if event.object = cq; event.Type == EventCQErr {
			cq.lost()
		}
	}
	if srq, ok := d.srqs.find(d.read.srq); ok {
		event.object = srq
	}
	return event
}

func (d *ibvDevice) Close() error {
	if err := d.closeContext(); err != nil {
		return err
	}
	_ = d.events.close() // the device is closed, even if closing the duplicate fails
	d.queue.Close()
	return nil
}

func (d *ibvDevice) closeContext() error {
	d.reading.Lock()
	defer d.reading.Unlock()
	err := errnoErr(C.rv_close_device(d.ctx))
	d.closed = err == nil
	return err
}

// hostOrder64 converts a big-endian number, read as a machine word, to host order.
func hostOrder64(be uint64) uint64 {
	if hostIsLittleEndian {
		return bits.ReverseBytes64(be)
	}
	return be
}

func hostOrder32(be uint32) uint32 {
	if hostIsLittleEndian {
		return bits.ReverseBytes32(be)
	}
	return be
}

var hostIsLittleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// errnoErr returns the errno as an error, or nil for 0.
func errnoErr(errno C.int) error {
	if errno == 0 {
		return nil
	}
	return syscall.Errno(errno)
}
