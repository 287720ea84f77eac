// Package bench measures bandwidth and latency as the programs of perftest do
// (ib_send_bw, ib_write_lat and others). It posts, signals and waits as they do, lays
// out memory as they do, and its figures count what theirs count. So an end of this
// package works with an end of theirs, and the figures can be compared.
//
// The package has no exchange. Its user connects the queue pairs, gives the peer the
// address of the memory, and has both ends meet before and after each measurement. In
// order:
//
//  1. a [Plan], from [Defaults], and settled ([Plan.Settle]); both ends have the same;
//  2. queue pairs of TxDepth and RxDepth requests, and a region of [Plan.Bytes];
//  3. [New], and for each of [Plan.Sizes]: [Run.PostReceives], the ends meet,
//     [Run.Measure], the ends meet again.
package bench
