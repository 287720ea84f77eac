// Package verbs gives Go programs RDMA verbs: devices, protection domains, memory regions,
// completion queues, queue pairs and shared receive queues. The names are those of the
// InfiniBand specification and libibverbs, in Go's case: ibv_post_send is [QP.PostSend],
// struct ibv_wc is [WC].
//
// A program opens a device, makes its objects and moves its queue pair to RTS. For the moves
// it needs values that the peer sends over another channel, such as package oob.
// [QPEndpoint.Connect] and [GIDEntry.To] turn these values into the attributes of the moves:
//
//	dev, err := verbs.Open("rxe0")
//	pd, err := dev.AllocPD()
//	ch, err := dev.CreateCompChannel()
//	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: ch})
//	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: …})
//	mr, err := pd.AllocMR(4096, verbs.AccessLocalWrite)
//	m := qp.Machine(nil) // RESET→INIT→RTR→RTS: m.ToInit, m.ToRTR, m.ToRTS
//	err = qp.PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{mr.SGE(0, 4096)}}})
//	n, err := cq.Wait(ctx, wcs) // or: for wc, err := range cq.Completions(ctx)
//
// Package rc does all of this in one call.
//
// The comment of each wrapper ends with the C functions that it implements, as prototypes from
// infiniband/verbs.h.
//
// # Devices come from providers
//
// On Linux with cgo, the provider "libibverbs" serves the kernel's RDMA devices: hardware and
// rdma_rxe. It loads libibverbs when a program first lists or opens a device. If libibverbs is
// missing, or if the program was built without cgo or for another system, this provider
// returns errors.ErrUnsupported and the devices of other providers still work.
//
// Other providers register themselves when a program imports their package, as database/sql
// drivers do. Package softroce provides soft0, a device in software. The examples run on soft0.
//
// # How C is called
//
// On libibverbs' devices, posting, polling, arming and reading events call C in one of two
// ways. The log record of [Open] says which one is in use ([OpenOptions]).
//
//   - Past Go's scheduler: on amd64, built with Go 1.26. The garbage collector, and everything
//     else that stops the world, waits until the call returns. Therefore each call is short: at
//     most 64 sends with 16 KiB in total, 256 receives or completions, or 128 polls that find
//     nothing. A CPU profile shows the time under runtime._ExternalCode, without the caller. A
//     fault in the call does not reach signal handlers that C installed.
//   - Through cgo: on other processors, with other versions of Go, under the race detector and
//     the sanitizers, with the build tag cgocalls, with RAWVERBS_CGO_CALLS=1 in the environment
//     at the start, and for longer sends. A poll takes twice the time. Nothing waits for the
//     call.
//
// On rdma_rxe, siw and hfi1 a post is a system call, which may also send the packets. The longest
// of the short posts takes 0.1 to 0.8 ms on rdma_rxe, on the machine of docs/testing.md. If the
// garbage collector must not wait that long, set RAWVERBS_CGO_CALLS=1.
//
// docs/design/direct-calls.md explains the mechanism.
//
// # Waiting
//
// A program gets completions from a CQ in one of four ways. None of them allocates per
// completion. All of them may be used on one CQ at the same time; each completion goes to one
// caller.
//
//	CQ.Poll, CQ.PollEx   look once and never wait: for a loop that also does other work
//	CQ.Wait              sleeps until a completion is there: the usual way
//	CQ.WaitFor           waits as its WaitOptions say. Options combine: poll for some time
//	                     before the sleep (Spin) or instead of it (Spin, NoSleep), end with a
//	                     second context (Owner), sleep until a solicited completion
//	                     (Solicited), return extended completions (Ex)
//	CQ.Completions       waits in a Go loop, one completion per iteration
//
// If a context ends a wait, the error matches both the context's Err and its cause with
// errors.Is. docs/design/waiting.md explains how a goroutine waits.
//
// # Lifetime
//
// Every object has a Close and is valid until then. While a parent has open children, its Close
// returns EBUSY, names the children and leaves the parent open. So close children first: queue
// pairs before their CQs, SRQ and domain; regions, windows and address handles before their
// domain; CQs before their channel; everything before the device. A wrong order is an error
// but does no harm. Closing twice does nothing, and so does closing a nil or zero object. After Close,
// methods that need the device return net.ErrClosed, and a goroutine that waits on the object wakes
// with net.ErrClosed.
//
// An object that is garbage collected without Close is a leak. The device's Logger
// ([OpenOptions]), or slog.Default without one, gets a Warn with the attribute "object"
// ("QP on rxe0"). The object is not freed, because the device may still use it.
//
// # Memory
//
// The garbage collector does not know that the device reads and writes memory. Therefore the
// memory of a region is pinned while the region is open. The memory is new ([PD.AllocMR]) or
// the caller's ([PD.RegMR]). After Close it is ordinary Go memory and stays as long as a slice
// refers to it, so a goroutine that still reads it does no harm.
//
// # Goroutines
//
// All methods of an object may be called at the same time by several goroutines, Close included.
// The comment of a type names the exceptions. Package-level functions may also be called at the
// same time. Posts to one queue of a queue pair run one after the other; so do polls of one CQ. A
// wait does not hold an operating system thread. Values such as [WC], [SendWR] and [QPAttr] are
// plain data without locks.
//
// # Errors
//
// A failed call returns an *[Error] with the name of the C call, the device, the errno and
// advice. A refused post returns a *[PostError] with the index of the refused request. A failed
// completion is data, not an error; [WC.Err] makes a *[WCError] from it. Where a comment names
// an errno ("EINVAL for …"), errors.Is(err, syscall.EINVAL) is true. If the device or the system
// lacks a feature, errors.Is(err, errors.ErrUnsupported) is true.
//
// # Watching
//
// A device opened with [OpenOptions] logs each verb called on the device and on objects made from
// it to a log/slog Logger. A function given to [qpstate.NewMachine] gets the attributes of each
// transition. A Logger given to package rc gets each object, transition and message of a
// connection.
//
// # Writing a provider
//
// [Register] and everything whose name begins with Provider are for packages that serve devices. A
// program that uses devices needs none of it. [Provider] has the rules of all methods.
//
//	Provider         lists the devices, and opens a ProviderDevice
//	ProviderDevice   makes ProviderPD, ProviderCQ, ProviderCompChannel
//	ProviderPD       makes ProviderMR, ProviderMW, ProviderAH, ProviderSRQ, ProviderQP
//	ProviderQPInit   and ProviderCQInit are QPInit and CQInit with the provider's objects
//	ProviderOf       returns the provider's object of a *CQ, *MR and so on
//	ProviderEvent    makes the asynchronous event of a CQ or an SRQ
//
// The other names are optional interfaces: a ProviderPD that also has the method of [ProviderNullMR]
// supports null regions. They are in this package, and not in one of their own, because a
// [SendWR] names an [AH], and an AH holds its ProviderAH.
//
// # Examples
//
//	Example                  two queue pairs by hand, from the objects to a READ
//	ExampleAH                a datagram and its answer
//	ExampleCQ                polling, and sleeping on a channel
//	ExampleCQ_Completions    a loop over completions, with a deadline
//	ExampleCQ_PollEx         extended completions, moderation
//	ExampleChooseGID         one of a port's addresses
//	ExampleCompChannel       one channel for many CQs
//	ExampleDevice            what a device is and can do
//	ExampleDevice_Subscribe  asynchronous events
//	ExampleMR                three kinds of memory; a change in place
//	ExampleMW                a window that the peer invalidates
//	ExamplePD                objects of two domains do not mix
//	ExampleQP                a queue pair's life, with refusals and a flush
//	ExampleSRQ               one queue of receives for two queue pairs
package verbs
