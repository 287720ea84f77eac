// The interfaces through which devices are served: ibv_*.go implements them with
// libibverbs, and softroce implements them in Go.

package verbs

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Provider makes devices available by name. The types whose names begin with Provider are
// for packages that serve devices; a program that uses devices does not need them. Such a
// package calls [Register] in an init function.
//
// The rules for every method of these interfaces, unless its comment says otherwise:
//
//   - Several goroutines may call it at once.
//   - An error is a syscall.Errno or wraps one, and the failed call leaves nothing behind.
//     This package adds the name of the C call, the device and a hint.
//   - Close is called after the object's children were closed, and no other call runs
//     beside it. If Close fails, the object stays as it was, and Close may be called again.
//   - After a successful Close nothing more is called. Two groups of methods are excepted.
//     Poll, PollEx, Arm, PostSend, PostRecv, BindMW and NextEvent may run beside Close or
//     after it; after it they return net.ErrClosed. And methods that need no device, such
//     as QPN, may be called at any time.
//   - An optional feature is an interface of its own. If an object does not implement the
//     interface, the public call returns EOPNOTSUPP, which is errors.ErrUnsupported.
type Provider interface {
	// Name is printed beside the devices: "libibverbs".
	Name() string
	// Devices lists what can be opened. An empty list is not an error.
	Devices() ([]DeviceInfo, error)
	// Open opens a device by name; bare ENODEV if the name is not this provider's.
	Open(name string) (ProviderDevice, error)
}

// ProviderDevice is an open device (struct ibv_context).
type ProviderDevice interface {
	// QueryDevice reads the limits.
	QueryDevice() (DeviceAttr, error)
	// QueryPort reads a port's attributes; EINVAL if the device has no such port.
	QueryPort(port uint8) (PortAttr, error)
	// QueryGIDTable lists the filled slots of all ports, by port and index.
	QueryGIDTable() ([]GIDEntry, error)
	// QueryPKey reads a slot of a port's table, in host order.
	QueryPKey(port uint8, index int) (uint16, error)
	// AllocPD makes a protection domain.
	AllocPD() (ProviderPD, error)
	// CreateCompChannel makes a completion channel.
	CreateCompChannel() (ProviderCompChannel, error)
	// CompVectors is how many completion vectors there are: at least one.
	CompVectors() int
	// CreateCQ makes a completion queue; EOPNOTSUPP for what it cannot do of init.
	CreateCQ(init ProviderCQInit) (ProviderCQ, error)
	// NextEvent waits for the next asynchronous event, until Close. It is called
	// by one goroutine, and what it returned is acknowledged.
	NextEvent() (AsyncEvent, error)
	// Close closes the device, and ends NextEvent.
	Close() error
}

// ProviderDeviceInformer is an optional interface of a ProviderDevice. A device that can be
// opened by a name that the Provider does not list must implement it.
type ProviderDeviceInformer interface {
	// Info describes the device as [Devices] would.
	Info() DeviceInfo
}

// ProviderPD is a protection domain (struct ibv_pd).
type ProviderPD interface {
	// RegMR registers buf, which stays where it is until the MR's Close, under the
	// addresses from iova on.
	RegMR(buf []byte, iova uint64, access Access) (ProviderMR, error)
	// AllocMW makes a memory window; EINVAL for an unknown type.
	AllocMW(t MWType) (ProviderMW, error)
	// CreateAH makes an address handle.
	CreateAH(attr AHAttr) (ProviderAH, error)
	// CreateSRQ makes a shared receive queue.
	CreateSRQ(init SRQInit) (ProviderSRQ, error)
	// CreateQP makes a queue pair in RESET.
	CreateQP(init ProviderQPInit) (ProviderQP, error)
	// Close frees the domain.
	Close() error
}

// ProviderMR is a memory region (struct ibv_mr).
type ProviderMR interface {
	// LKey is the key for this side, also after Close.
	LKey() uint32
	// RKey is the key for the peer, also after Close.
	RKey() uint32
	// Close ends the registration. Afterwards the device does not touch the memory.
	Close() error
}

// ProviderMW is a memory window (struct ibv_mw).
type ProviderMW interface {
	// RKey is the key of the last bind posted, also after Close.
	RKey() uint32
	// Close frees the window, bound or not.
	Close() error
}

// ProviderAH is an address handle (struct ibv_ah).
type ProviderAH interface {
	// Close destroys the handle.
	Close() error
}

// ProviderCompChannel is a completion channel (struct ibv_comp_channel). If it
// breaks, its CQs are woken and their Arm says why.
type ProviderCompChannel interface {
	// Close destroys the channel.
	Close() error
}

// ProviderCQInit is a [CQInit] in terms of provider objects.
type ProviderCQInit struct {
	Depth   int                 // entries asked for
	Channel ProviderCompChannel // nil, or one of this device's own
	Vector  int                 // completion vector
	Ex      WCExFlags           // not 0: for PollEx
	Flags   CQFlags             // as CQInit has them
	// Wake is called for each of the CQ's events if there is a channel, by any
	// goroutine: it does not block and calls nothing back. A ProviderCQSleeper may put it off
	// until a goroutine sleeps on one of the channel's CQs, and do without it for
	// that one's own events.
	Wake func()
}

// ProviderCQ is a completion queue (struct ibv_cq). It is comparable, so that an
// event can name it.
type ProviderCQ interface {
	// Depth is the number of entries it was given.
	Depth() int
	// Poll moves up to len(wcs) completions into wcs, oldest first, and returns
	// how many. Immediate data is in host order. It allocates nothing.
	Poll(wcs []WC) (int, error)
	// PollEx is Poll for a CQ made with Ex; EINVAL for another.
	PollEx(wcs []WCEx) (int, error)
	// Arm asks for one event at the next completion, or at the next solicited one.
	Arm(solicitedOnly bool) error
	// Resize makes it hold at least depth entries. Those in it stay, and if there
	// are more the CQ stays as it was.
	Resize(depth int) error
	// Moderate holds an event back until count completions came or period passed
	// since the first, in whole microseconds; it is not called with what does not fit
	// 16 bits.
	Moderate(count int, period time.Duration) error
	// Close destroys the queue; Wake may still be called while it does.
	Close() error
}

// ProviderSRQ is a shared receive queue (struct ibv_srq). It is comparable, so that
// an event can name it.
type ProviderSRQ interface {
	// PostRecv does what PostRecv of a ProviderQP does.
	PostRecv(wrs []RecvWR) (n int, err error)
	// Modify applies the attributes that mask names: all, or none with an error.
	Modify(attr SRQAttr, mask SRQAttrMask) error
	// Query returns the sizes granted, and the limit that is armed.
	Query() (SRQAttr, error)
	// Number is the SRQ number, by which an XRC peer names the queue; EOPNOTSUPP if the
	// queue has none.
	Number() (uint32, error)
	// Close destroys the queue, and what is in it.
	Close() error
}

// ProviderCQSleeper is an optional interface of a ProviderCQ that gives work to a waiting
// goroutine: reading the completion channel, or receiving packets.
type ProviderCQSleeper interface {
	// Sleep returns once there was an event since the last Poll, ctx or owner has ended
	// or Close was called; to return earlier does no harm. woken yields once for the
	// calls of Wake, and gone is closed after Close. It allocates nothing, but for a
	// context other than that of the Sleep before.
	Sleep(ctx, owner context.Context, woken, gone <-chan struct{})
	// WakeSleeper makes a Sleep return that is under way and does not look at woken.
	WakeSleeper()
	// SleepMakesProgress reports whether the device makes progress in the goroutine that
	// sleeps.
	SleepMakesProgress() bool
}

// ProviderCQSpinner is an optional interface of a ProviderCQ for which one call that polls
// several times costs less than as many calls of Poll.
type ProviderCQSpinner interface {
	// Spin polls until a completion is there, at most polls times. polls is at least 1.
	// The rules of Poll hold.
	Spin(wcs []WC, polls int) (int, error)
}

// ProviderQPInit is a [QPInit] in terms of provider objects, all of one device.
type ProviderQPInit struct {
	Type           QPType      // any number: EOPNOTSUPP or EINVAL for one that the device does not have
	SendCQ, RecvCQ ProviderCQ  // neither is nil
	SRQ            ProviderSRQ // nil: a receive queue of its own
	Cap            QPCap       // sizes asked for
	SigAll         bool        // every send completes
	PostPath       PostPath    // EOPNOTSUPP for one that the device does not have
}

// ProviderQP is a queue pair (struct ibv_qp).
type ProviderQP interface {
	// QPN is the number, also after Close.
	QPN() uint32
	// Cap is what was granted: at least what was asked for.
	Cap() QPCap
	// Modify applies the attributes named by mask; a plain EINVAL will do where
	// the transition table forbids the move.
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query reads at least the attributes named by mask.
	Query(mask QPAttrMask) (QPAttr, error)
	// PostSend queues the requests in order and returns how many were taken; with an
	// error, wrs[n] is the one refused and none after it was taken. The slice and what
	// it points to are not kept. It allocates nothing.
	PostSend(wrs []SendWR) (n int, err error)
	// PostRecv queues receives; the rules of PostSend hold.
	PostRecv(wrs []RecvWR) (n int, err error)
	// BindMW posts the bind of a type 1 window, and changes its key; RKey of b does
	// not count. A window and a region are there, and of this device or not. One window
	// is bound by one call at a time.
	BindMW(id uint64, flags SendFlags, b *MWBind) error
	// Close destroys the queue pair, and what is in its queues.
	Close() error
}

// providers holds what Register was given, in order.
var providers struct {
	sync.Mutex
	list []Provider
}

// Register makes a provider's devices available to [Devices] and [Open], after
// those of the providers registered before. It is meant for an init function;
// a second provider of the same name panics. This list, the libibverbs that was loaded
// and the memory that open regions pin are what the package keeps for the whole process.
func Register(p Provider) {
	providers.Lock()
	defer providers.Unlock()
	if slices.ContainsFunc(providers.list, func(q Provider) bool { return q.Name() == p.Name() }) {
		panic("verbs: provider " + p.Name() + " registered twice")
	}
	providers.list = append(providers.list, p)
}

func registered() []Provider {
	providers.Lock()
	defer providers.Unlock()
	return slices.Clone(providers.list)
}
