// The seam: what serves devices to this package. libibverbs fills it (ibv_*.go);
// a device in software is another provider, and nothing above changes.
//
// The contract, for every method unless it says otherwise:
//   - it may be called by several goroutines at once;
//   - what fails returns a syscall.Errno, or an error that wraps one, and leaves
//     nothing behind; this package adds the call's name, the device and a hint;
//   - Close is called after the object's children were closed, and no other call is
//     then under way. A Close that fails leaves the object as it was, for another Close;
//     after one that succeeds no call comes. The exceptions are Poll, PollEx, Arm,
//     PostSend, PostRecv, BindMW and NextEvent: they may meet Close at any moment, and
//     answer net.ErrClosed after it; and what needs no device, such as QPN.

package verbs

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Provider makes devices available by name. Programs need it not: it is for packages
// that serve devices, which [Register] one in an init function. Its methods, and those
// of the objects beneath it, may be called by several goroutines at once; what fails
// returns a syscall.Errno or an error that wraps one, to which this package adds the
// call's name, the device and a hint. Close is called after the object's children were
// closed. A Close that fails leaves the object as it was, and is called again if the
// program likes. After one that succeeds nothing is called but what may meet a Close at
// any moment and then answers net.ErrClosed: Poll, PollEx, Arm, PostSend, PostRecv,
// BindMW, NextEvent; and what needs no device, such as QPN.
type Provider interface {
	// Name is printed beside the devices: "libibverbs".
	Name() string
	// Devices lists what can be opened; none is no error.
	Devices() ([]DeviceInfo, error)
	// Open opens a device by name; bare ENODEV if the name is not this provider's.
	Open(name string) (DeviceProvider, error)
}

// DeviceProvider is an open device (struct ibv_context).
type DeviceProvider interface {
	// QueryDevice reads the limits.
	QueryDevice() (DeviceAttr, error)
	// QueryPort reads a port's attributes; EINVAL for one that there is not.
	QueryPort(port uint8) (PortAttr, error)
	// QueryGIDTable lists the filled slots of all ports, by port and index.
	QueryGIDTable() ([]GIDEntry, error)
	// QueryPKey reads a slot of a port's table, in host order.
	QueryPKey(port uint8, index int) (uint16, error)
	// AllocPD makes a protection domain.
	AllocPD() (PDProvider, error)
	// CreateCompChannel makes a completion channel.
	CreateCompChannel() (CompChannelProvider, error)
	// CompVectors is how many completion vectors there are: at least one.
	CompVectors() int
	// CreateCQ makes a completion queue; EOPNOTSUPP for what it cannot do of init.
	CreateCQ(init CQInitProvider) (CQProvider, error)
	// NextEvent waits for the next asynchronous event, until Close. It is called
	// by one goroutine, and what it returned is acknowledged.
	NextEvent() (AsyncEvent, error)
	// Close closes the device, and ends NextEvent.
	Close() error
}

// DeviceInformer is what a DeviceProvider may be besides: one that says what it is.
// It must be where names can be opened that the Provider does not list.
type DeviceInformer interface {
	// Info is what a list would have said of the device.
	Info() DeviceInfo
}

// PDProvider is a protection domain (struct ibv_pd).
type PDProvider interface {
	// RegMR registers buf, which stays where it is until the MR's Close, under the
	// addresses from iova on.
	RegMR(buf []byte, iova uint64, access Access) (MRProvider, error)
	// AllocMW makes a memory window; EINVAL for a type that there is not.
	AllocMW(t MWType) (MWProvider, error)
	// CreateAH makes an address handle.
	CreateAH(attr AHAttr) (AHProvider, error)
	// CreateSRQ makes a shared receive queue.
	CreateSRQ(init SRQInit) (SRQProvider, error)
	// CreateQP makes a queue pair in RESET.
	CreateQP(init QPInitProvider) (QPProvider, error)
	// Close frees the domain.
	Close() error
}

// MRProvider is a memory region (struct ibv_mr).
type MRProvider interface {
	// LKey is the key for this side, also after Close.
	LKey() uint32
	// RKey is the key for the peer, also after Close.
	RKey() uint32
	// Close ends the registration: then the device touches the memory no more.
	Close() error
}

// MWProvider is a memory window (struct ibv_mw).
type MWProvider interface {
	// RKey is the key of the last bind posted, also after Close.
	RKey() uint32
	// Close frees the window, bound or not.
	Close() error
}

// AHProvider is an address handle (struct ibv_ah).
type AHProvider interface {
	// Close destroys the handle.
	Close() error
}

// CompChannelProvider is a completion channel (struct ibv_comp_channel). If it
// breaks, its CQs are woken and their Arm says why.
type CompChannelProvider interface {
	// Close destroys the channel.
	Close() error
}

// CQInitProvider is a [CQInit] in terms of provider objects.
type CQInitProvider struct {
	Depth   int                 // entries asked for
	Channel CompChannelProvider // nil, or one of this device's own
	Vector  int                 // completion vector
	Ex      WCExFlags           // not 0: for PollEx
	Flags   CQFlags             // as CQInit has them
	// Wake is called for each of the CQ's events if there is a channel, by any
	// goroutine: it does not block and calls nothing back. A CQSleeper may put it off
	// until a goroutine sleeps on one of the channel's CQs, and do without it for
	// that one's own events.
	Wake func()
}

// CQProvider is a completion queue (struct ibv_cq). It is comparable, so that an
// event can name it.
type CQProvider interface {
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

// SRQProvider is a shared receive queue (struct ibv_srq). It is comparable, so that
// an event can name it.
type SRQProvider interface {
	// PostRecv is as a QPProvider's.
	PostRecv(wrs []RecvWR) (n int, err error)
	// Modify applies the attributes that mask names: all, or none with an error.
	Modify(attr SRQAttr, mask SRQAttrMask) error
	// Query returns the sizes granted, and the limit that is armed.
	Query() (SRQAttr, error)
	// Number is what an XRC peer names it by; EOPNOTSUPP if it has none.
	Number() (uint32, error)
	// Close destroys the queue, and what is in it.
	Close() error
}

// CQSleeper is an optional interface of a CQProvider that gives work to a waiting
// goroutine: reading the completion channel, or receiving packets.
type CQSleeper interface {
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

// CQSpinner is what a CQProvider may be besides: one that polls several times for less
// than as many calls of Poll.
type CQSpinner interface {
	// Spin is Poll until something is there, at most polls times, which is 1 or more;
	// what holds for Poll holds for it.
	Spin(wcs []WC, polls int) (int, error)
}

// QPInitProvider is a [QPInit] in terms of provider objects, all of one device.
type QPInitProvider struct {
	Type           QPType      // any number: EOPNOTSUPP or EINVAL for one that the device does not have
	SendCQ, RecvCQ CQProvider  // neither is nil
	SRQ            SRQProvider // nil: a receive queue of its own
	Cap            QPCap       // sizes asked for
	SigAll         bool        // every send completes
	PostPath       PostPath    // EOPNOTSUPP for one that the device does not have
}

// QPProvider is a queue pair (struct ibv_qp).
type QPProvider interface {
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
	// PostRecv is PostSend's like.
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
