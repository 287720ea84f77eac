// Package verbs gives Go programs RDMA verbs: devices, protection domains,
// memory regions, completion queues, queue pairs and shared receive queues, under
// the names that the InfiniBand specification and libibverbs use, in Go's case:
// ibv_post_send is [QP.PostSend], struct ibv_wc is [WC].
//
// A program opens a device, makes its objects and moves its queue pair to RTS
// with what the peer told it over some other channel (package oob):
//
//	dev, err := verbs.Open("rxe0")
//	pd, err := dev.AllocPD()
//	ch, err := dev.CreateCompChannel()
//	cq, err := dev.CreateCQ(verbs.CQInit{Depth: 64, Channel: ch})
//	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: …})
//	mr, err := pd.AllocMR(4096, verbs.AccessLocalWrite)
//	m := qpstate.NewMachine(verbs.RC, qp, nil) // RESET→INIT→RTR→RTS
//	err = qp.PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{mr.SGE(0, 4096)}}})
//	n, err := cq.Wait(ctx, wcs) // or: for wc, err := range cq.Completions(ctx)
//
// Package rc does all of this in one call.
//
// # Devices come from providers
//
// On Linux with cgo the provider "libibverbs" serves the kernel's RDMA devices:
// hardware and rdma_rxe. Another provider registers itself when its package is
// imported, as database/sql drivers do. Built without cgo or for another system
// this package compiles, and libibverbs answers errors.ErrUnsupported.
//
// # Lifetime
//
// Every object has a Close. A parent with living children answers EBUSY and
// names them; closing twice is fine; what is closed answers net.ErrClosed. An
// object that is garbage collected unclosed is reported as a leak through
// log/slog and is not freed.
//
// # Memory
//
// The device reads and writes memory behind the garbage collector's back, so
// a region's memory either lies outside Go's heap ([PD.AllocMR]) or is pinned
// for as long as the region lives ([PD.RegMR]).
//
// # Goroutines
//
// Every method may be called by several goroutines at once. Posts to one
// direction of one QP are serialized, as are polls of one CQ. No wait holds an
// operating system thread.
package verbs
