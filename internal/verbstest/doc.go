// Package verbstest is the conformance table: what a device must do, as cases
// that run on every device (the software device, rdma_rxe in the machine,
// hardware), client and server as two objects in one process.
//
//	verbstest.Run(t, "soft0", verbstest.Quirks(t, "soft0"))
//
// A case is a row of [Cases]. It gets a freshly opened device, and it is right
// when it finds nothing to complain of. A device that is known to differ has a
// quirk: the case's name and the reason. That case must then fail, and one that
// passes fails the run, so the list of quirks is always what is true today. No
// case is ever skipped.
//
// [RunSimulated] is for devices without sockets: the software device on a simulated
// bad network. Its clock stands still while anybody runs, so a goroutine of a case
// that waits for a time sleeps or blocks, and one that spins is waited for by what
// it has done (turns, in threads.go).
//
// The files follow the verbs: device.go, query.go, memory.go, remap.go, windows.go,
// cq.go, cqsize.go, cqex.go, cqloop.go, cqevents.go, srq.go, srqevents.go, qp.go,
// values.go, transitions.go, post.go, builder.go, data.go, rdma.go, datagram.go,
// errors.go, flush.go, events.go, drain.go, threads.go. What a device cannot do is
// in quirks.go.
package verbstest
