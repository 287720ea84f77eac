// Package measure measures bandwidth and latency in the same way as the programs of perftest
// (ib_send_bw, ib_write_lat and others). It posts, signals, waits and lays out memory as they
// do, and computes the same figures. So one end may be a program of perftest, and the figures
// are comparable.
//
// The package does not exchange anything with the peer. Its user connects the queue pairs,
// sends the peer the address of the memory, and synchronizes both ends before and after each
// measurement:
//
//  1. Make a [Plan] from [Defaults], and call [Plan.Settle]. Both ends have the same plan.
//  2. Connect queue pairs of TxDepth and RxDepth requests, and register a region of
//     [Plan.Bytes].
//  3. Call [New]. Then for each of [Plan.Sizes]: call [Run.PostReceives], synchronize, call
//     [Run.Measure], synchronize again.
//
// A Run is used by one goroutine. Measuring allocates nothing per message.
package measure
