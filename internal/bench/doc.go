// Package bench measures bandwidth and latency as the programs of perftest do
// (ib_send_bw, ib_write_lat and their kind): what is posted when, what is signaled, who
// waits for what, where in memory each message lies, and what the figures count are
// theirs, so that an end of this package fits an end of theirs, and the figures can
// be compared.
//
// It has no exchange: whoever uses it connects the queue pairs, tells the peer where
// memory is, and has both ends meet before and after each measuring. In order:
//
//  1. a [Plan], from [Defaults], and settled ([Plan.Settle]); both ends have the same;
//  2. queue pairs of TxDepth and RxDepth requests, and a region of [Plan.Bytes];
//  3. [New], and for each of [Plan.Sizes]: [Run.PostReceives], the ends meet,
//     [Run.Measure], the ends meet again.
package bench
