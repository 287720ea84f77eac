// The interfaces between this package and devices. ibv_*.go implements them with libibverbs, and
// softroce implements them in Go.

package verbs

import (
	"slices"
	"sync"
	"time"
)

// Provider makes devices available by name. The types whose names begin with Provider are for
// packages that serve devices; a program that uses devices does not need them. Such a package calls
// [Register] in an init function.
//
// These rules hold for every method of the interfaces, unless its comment says otherwise:
//
//   - Several goroutines may call it at once.
//   - An error is a syscall.Errno or wraps one. A failed call leaves nothing behind. This package
//     adds the name of the C call, the device and a hint.
//   - Close is called after the object's children were closed, and no other call runs at the same time.
//     If Close fails, the object is unchanged, and Close may be called again.
//   - After a successful Close nothing more is called, with two exceptions. Poll, PollEx, Arm,
//     PostSend, PostRecv, BindMW and NextEvent may run during Close or after it; after Close they
//     return net.ErrClosed. Methods that need no device, such as QPN, may be called at any time.
//   - Optional features are separate interfaces. If an object does not implement the interface,
//     the public call returns EOPNOTSUPP, which is errors.ErrUnsupported.
type Provider interface {
	// Name returns the provider's name, which is printed beside its devices: "libibverbs".
	Name() string
	// Devices lists the devices that can be opened. An empty list is not an error.
	Devices() ([]DeviceInfo, error)
	// Open opens a device by name. It returns a bare ENODEV if the provider has no device of that name.
	Open(name string) (ProviderDevice, error)
}

// ProviderDevice is an open device (struct ibv_context).
type ProviderDevice interface {
	// QueryDevice reads the limits.
	QueryDevice() (DeviceAttr, error)
	// QueryPort reads a port's attributes; EINVAL if the device has no such port.
	QueryPort(port uint8) (PortAttr, error)
	// QueryGIDTable lists the filled slots of all ports, sorted by port and index.
	QueryGIDTable() ([]GIDEntry, error)
	// QueryPKey reads a slot of a port's partition key table, in host order.
	QueryPKey(port uint8, index int) (uint16, error)
	// AllocPD makes a protection domain.
	AllocPD() (ProviderPD, error)
	// CreateCompChannel makes a completion channel.
	CreateCompChannel() (ProviderCompChannel, error)
	// CompVectors returns the number of completion vectors, at least one.
	CompVectors() int
	// CreateCQ makes a completion queue. EOPNOTSUPP if the device does not support a part of init.
	CreateCQ(init ProviderCQInit) (ProviderCQ, error)
	// NextEvent waits for the next asynchronous event and acknowledges it. It returns
	// net.ErrClosed after Close. One goroutine calls it.
	NextEvent() (AsyncEvent, error)
	// Close closes the device and ends NextEvent.
	Close() error
}

// ProviderPD is a protection domain (struct ibv_pd).
type ProviderPD interface {
	// RegMR registers buf. SGEs and the peer address its bytes from iova on. buf keeps its address
	// until the MR's Close.
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
	// LKey returns the key for this side. It is valid after Close.
	LKey() uint32
	// RKey returns the key for the peer. It is valid after Close.
	RKey() uint32
	// Close ends the registration. After it the device does not touch the memory.
	Close() error
}

// ProviderMW is a memory window (struct ibv_mw).
type ProviderMW interface {
	// RKey returns the key of the last posted bind. It is valid after Close.
	RKey() uint32
	// Close frees the window, bound or not.
	Close() error
}

// ProviderAH is an address handle (struct ibv_ah).
type ProviderAH interface {
	// Close destroys the handle.
	Close() error
}

// ProviderCompChannel is a completion channel (struct ibv_comp_channel). If the channel fails, the
// provider wakes its CQs, and their Arm returns the cause.
type ProviderCompChannel interface {
	// Close destroys the channel.
	Close() error
}

// ProviderCQInit is a [CQInit] with provider objects.
type ProviderCQInit struct {
	Depth   int                 // requested entries
	Channel ProviderCompChannel // nil, or a channel of this device
	Vector  int                 // completion vector
	Ex      WCExFlags           // not 0: for PollEx
	Flags   CQFlags             // as in CQInit
	// Wake is to be called for each event of the CQ, if there is a channel. Any goroutine may call
	// it; it does not block and does not call the provider. A ProviderCQSleeper may delay the call
	// until a goroutine sleeps on one of the channel's CQs, and need not call it for events of that
	// CQ.
	Wake func()
	// Overran is to be called, before a Wake, when a completion was lost because the CQ was full.
	// The rules of Wake hold. nil: nobody wants to know.
	Overran func()
}

// ProviderCQ is a completion queue (struct ibv_cq). It must be comparable, because events name it.
type ProviderCQ interface {
	// Depth returns the granted number of entries.
	Depth() int
	// Poll moves up to len(wcs) completions into wcs, oldest first, and returns their number.
	// Immediate data is in host order. Poll does not allocate.
	Poll(wcs []WC) (int, error)
	// PollEx is Poll for a CQ made with Ex; EINVAL for other CQs.
	PollEx(wcs []WCEx) (int, error)
	// Arm requests one event at the next completion, or at the next solicited one.
	Arm(solicitedOnly bool) error
	// Resize changes the number of entries to at least depth. Completions in the CQ stay. If they do
	// not fit, the CQ is unchanged.
	Resize(depth int) error
	// Moderate delays an event until count completions came or period has passed since the first of
	// them. period is a whole number of microseconds. Both fit in 16 bits.
	Moderate(count int, period time.Duration) error
	// Close destroys the queue. Wake may still be called meanwhile.
	Close() error
}

// ProviderSRQ is a shared receive queue (struct ibv_srq). It must be comparable, because events name
// it.
type ProviderSRQ interface {
	// PostRecv queues receives; the rules of ProviderQP's PostRecv hold.
	PostRecv(wrs []RecvWR) (n int, err error)
	// Modify applies the attributes that mask names, either all of them or none.
	Modify(attr SRQAttr, mask SRQAttrMask) error
	// Query returns the granted sizes and the armed limit.
	Query() (SRQAttr, error)
	// Number returns the SRQ number, by which an XRC peer names the queue. EOPNOTSUPP if the queue
	// has no number.
	Number() (uint32, error)
	// Close destroys the queue and discards its receives.
	Close() error
}

// ProviderQPInit is a [QPInit] with provider objects of one device.
type ProviderQPInit struct {
	Type           QPType      // any number; EOPNOTSUPP or EINVAL if the device does not support it
	SendCQ, RecvCQ ProviderCQ  // not nil
	SRQ            ProviderSRQ // nil: the queue pair has its own receive queue
	Cap            QPCap       // requested sizes
	SigAll         bool        // every send completes
	PostPath       PostPath    // EOPNOTSUPP if the device does not support it
}

// ProviderQP is a queue pair (struct ibv_qp).
type ProviderQP interface {
	// QPN returns the queue pair's number. It is valid after Close.
	QPN() uint32
	// Cap returns the granted sizes, which are at least the requested ones.
	Cap() QPCap
	// Modify applies the attributes that mask names. For a move that the transition table forbids,
	// a plain EINVAL is enough.
	Modify(attr *QPAttr, mask QPAttrMask) error
	// Query reads at least the attributes that mask names.
	Query(mask QPAttrMask) (QPAttr, error)
	// PostSend queues the requests in order and returns the number of queued ones. With an error,
	// wrs[n] was refused and the requests after it were not queued. PostSend does not keep the slice
	// or the memory that it points to, and does not allocate.
	PostSend(wrs []SendWR) (n int, err error)
	// PostRecv queues receives; the rules of PostSend hold.
	PostRecv(wrs []RecvWR) (n int, err error)
	// BindMW posts the bind of a type 1 window and changes the window's key. RKey of b is ignored.
	// b has a window and a region, which may be of another device. Calls for one window run one
	// after the other.
	BindMW(id uint64, flags SendFlags, b *MWBind) error
	// Close destroys the queue pair and discards its work requests.
	Close() error
}

// ProviderOf returns what a provider made for an object: the ProviderDevice of a *[Device], and
// likewise of a *[CQ], *[SRQ], *[AH], *[MR] or *[MW]. For an [AsyncEvent] it returns what was given to
// [ProviderEvent]. It also works after Close.
func ProviderOf[P any, O interface{ provider() P }](object O) P { return object.provider() }

func (d *Device) provider() ProviderDevice { return d.p }
func (cq *CQ) provider() ProviderCQ        { return cq.p }
func (s *SRQ) provider() ProviderSRQ       { return s.p }
func (ah *AH) provider() ProviderAH        { return ah.p }
func (mr *MR) provider() ProviderMR        { return mr.p }
func (mw *MW) provider() ProviderMW        { return mw.p }
func (e AsyncEvent) provider() any         { return e.object }

// ProviderEvent makes the event of a ProviderCQ or a ProviderSRQ, for NextEvent. An event of another
// object has its number in a field of AsyncEvent.
func ProviderEvent(t EventType, object any) AsyncEvent { return AsyncEvent{Type: t, object: object} }

// providers holds the registered providers in order.
var providers struct {
	sync.Mutex
	list []Provider
}

// Register makes a provider's devices available to [Devices] and [Open]. They come after the devices
// of the providers registered before. Call Register in an init function. It panics if a provider of
// the same name is already registered.
//
// The list of providers, the loaded libibverbs and the pinned memory of open regions are the only
// state that this package keeps for the whole process.
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
