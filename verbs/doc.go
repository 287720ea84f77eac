// Package verbs gives Go programs RDMA verbs: devices, protection domains,
// memory regions, completion queues, queue pairs and shared receive queues, under
// the names that the InfiniBand specification and libibverbs use, in Go's case:
// ibv_post_send is [QP.PostSend], struct ibv_wc is [WC].
//
// A program opens a device, makes its objects and moves its queue pair to RTS
// with what the peer sent over some other channel (package oob). [QPEndpoint.Connect] and
// [GIDEntry.To] make the attributes of the moves from that:
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
// The comment of each wrapper ends with the C functions that it implements, by their
// prototypes in infiniband/verbs.h.
//
// # Devices come from providers
//
// On Linux with cgo the provider "libibverbs" serves the kernel's RDMA devices:
// hardware and rdma_rxe. Another provider registers itself when its package is
// imported, as database/sql drivers do. Built without cgo or for another system
// this package compiles, and libibverbs answers errors.ErrUnsupported. libibverbs is
// loaded when a device is first asked for: on a machine without it the answer is the
// same, and other providers' devices work. Package softroce provides soft0, a device in
// software, which the examples run on.
//
// # How C is called
//
// Posting, polling, arming and reading events on libibverbs' devices call C in one of two
// ways. The record of [Open] says which one is taken ([WithLogger]).
//
//   - Past Go's scheduler: amd64, built with Go 1.26. The collector and whatever else stops
//     the world wait for the call; so only short ones are made: at most 64 sends of 16 KiB
//     in all, 256 receives or completions, 128 polls that find nothing. A CPU profile has
//     them under runtime._ExternalCode, without the caller, and a fault in them goes to no
//     handler that C had installed.
//   - Through cgo: other processors, other versions of Go, the race detector and the
//     sanitizers, the build tag cgocalls, programs that are started with
//     RAWVERBS_CGO_CALLS=1 in the environment, and longer sends anywhere. A poll then takes
//     twice the time; nobody waits for the call.
//
// On rdma_rxe, siw and hfi1 a post is a system call, which may send the packets as well:
// rdma_rxe takes 0.1 to 0.8 ms for the longest of the short posts, on the machine of
// docs/testing.md. A program that cannot have the collector wait so long sets the variable.
//
// # Waiting
//
// A CQ is looked at in one of four ways. None allocates per completion, and all may be used
// beside each other; each completion goes to one caller.
//
//	CQ.Poll, CQ.PollEx   looks once and never waits: for a loop that has other things to look at
//	CQ.Wait              sleeps until something is there: the usual way
//	CQ.WaitFor           is Wait with WaitOptions, which combine: poll for a while before the
//	                     sleep (Spin), or instead of it (Spin, NoSleep); end with a second
//	                     context (Owner); sleep until a solicited completion (Solicited);
//	                     take extended completions (Ex)
//	CQ.Completions       is Wait as a Go loop, one completion at a time
//
// A wait that its context ended returns an error that is both the context's Err and its cause
// to errors.Is.
//
// # Lifetime
//
// Every object has a Close, and is valid until then. A parent with living children
// answers EBUSY and names them, and stays open; so any order of closing is safe, and
// children first is the one that succeeds: queue pairs before their CQs, SRQ and domain;
// regions, windows and handles before their domain; CQs before their channel;
// everything before its device. Closing twice is fine; what is closed answers
// net.ErrClosed, and a goroutine that waits on it wakes with that.
//
// An object that is garbage collected unclosed is reported as a leak, by a Warn of the
// device's Logger ([WithLogger]), or else of slog.Default, with the attribute "object"
// ("QP on rxe0"), and is not freed: the device may be using it.
//
// # Memory
//
// The device reads and writes memory behind the garbage collector's back, so a region's
// memory is pinned for as long as the region lives: new memory ([PD.AllocMR]) or the
// caller's ([PD.RegMR]). After Close it is memory like any other, which stays for as long
// as a slice of it is left: a goroutine that still reads it does no harm.
//
// # Goroutines
//
// Every method of an object may run beside every other one, Close included, but for the
// few of which the type's comment says otherwise. Package-level functions may run beside
// each other. Posts to one direction of one QP are
// serialized, as are polls of one CQ. No wait holds an operating system thread. Values
// such as [WC], [SendWR] and [QPAttr] are plain data, and shared as such.
//
// # Errors
//
// A call that fails returns an *[Error]: the C call's name, the device, the errno and
// what to try. Posts return a *[PostError] with the index of the request that was refused;
// a completion that failed is data, of which [WC.Err] makes a *[WCError]. A comment that
// names an errno ("EINVAL for …") means errors.Is(err, syscall.EINVAL). What a device
// or the system does not have is errors.ErrUnsupported.
//
// # Watching
//
// A device opened with [WithLogger] logs every verb called on it, and on the objects made
// from it, to a log/slog Logger. A function given to [qpstate.NewMachine] gets the
// attributes of each transition. A Logger given to package rc gets each object, transition
// and message of a connection.
//
// # Examples
//
//	Example                  two queue pairs by hand, from the objects to a READ
//	ExampleAH                a datagram and its answer
//	ExampleCQ                polling, and sleeping on a channel
//	ExampleCQ_Completions    a loop over completions, until a deadline
//	ExampleCQ_PollEx         extended completions, moderation
//	ExampleChooseGID         one of a port's addresses
//	ExampleCompChannel       one channel for many CQs
//	ExampleDevice            what a device is and can do
//	ExampleDevice_Subscribe  asynchronous events
//	ExampleMR                three kinds of memory; a change in place
//	ExampleMW                a window that the peer closes
//	ExamplePD                what a domain keeps apart
//	ExampleQP                a queue pair's life, with refusals and a flush
//	ExampleSRQ               one stock of receives for two queue pairs
package verbs
