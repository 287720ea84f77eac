// Package verbstest is the conformance table: cases of what a device must do, which run on
// every device. The devices are the software device, rdma_rxe in the virtual machine, and
// hardware. Each case is client and server in one process. It is for whoever writes a provider,
// as testing/fstest is for whoever writes a file system.
//
//	verbstest.Run(t, "soft0", verbstest.Quirks(t, "soft0"))
//
// A case is a row of [Cases]. It gets a newly opened device, and passes if it finds no fault.
// For a device that is known to differ, the list of quirks has the name of the case and the
// reason. Such a case must fail: if it passes, the run fails, so the list is always up to date.
// No case is ever skipped.
//
// [RunSimulated] runs the table in simulated time, on devices without sockets: the software
// device on a simulated bad network. Simulated time stands still while any goroutine runs. So a
// goroutine of a case must sleep or block to wait for a time. To wait for a goroutine that
// spins, a case counts what that goroutine has done (turns, in threads.go).
//
// The files follow the verbs: device.go, query.go, memory.go, remap.go, windows.go, cq.go,
// cqsize.go, cqex.go, cqloop.go, cqevents.go, srq.go, srqevents.go, qp.go, transitions.go,
// post.go, builder.go, data.go, rdma.go, words.go, datagram.go, mcast.go, errors.go, flush.go,
// events.go, drain.go, threads.go. quirks.go lists what devices cannot do.
package verbstest
