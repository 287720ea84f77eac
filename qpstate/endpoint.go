// From what two ends tell each other to the attributes of the moves that connect them.

package qpstate

// Endpoint is what one end of a connection tells the other about its queue pair. How it gets
// there is the program's choice: package oob has a message of the same fields. The address is
// not part of it, because a way to the address is an [AHAttr].
type Endpoint struct {
	QPN                uint32 // the queue pair's number, 24 bits
	PSN                uint32 // of the first packet that this end sends, 24 bits; best at random
	MTU                MTU    // the largest path MTU of this end's port
	InitiatorDepth     uint8  // READs and atomics that this end would like to have in flight
	ResponderResources uint8  // READs and atomics of the peer that this end can serve at a time
}

// The timers and retries that Connect gives a queue pair.
const (
	connectTimeout     = 14 // 67 ms
	connectRetryCnt    = 7
	connectRNRRetry    = 7  // for ever
	connectMinRNRTimer = 12 // 0.64 ms
)

// Connect returns the attributes of INIT→RTR and RTR→RTS for e's queue pair when it is connected
// to peer's. way leads to the peer. The path MTU is the smaller of both ends', and so are the
// READs and atomics in flight in each direction. The peer's Connect gives the matching values.
// The queue pair waits 67 ms for an acknowledgement, resends 7 times, and waits forever, in
// steps of 0.64 ms, for a peer without a posted receive; a caller that wants other timers
// changes Timeout, RetryCnt and RNRRetry of rts and MinRNRTimer of rtr.
func (e Endpoint) Connect(peer Endpoint, way AHAttr) (rtr, rts Attr) {
	rtr = Attr{
		PathMTU: min(e.MTU, peer.MTU), DestQPN: peer.QPN, RQPSN: peer.PSN, AH: way,
		MaxDestRdAtomic: min(e.ResponderResources, peer.InitiatorDepth), MinRNRTimer: connectMinRNRTimer,
	}
	rts = Attr{
		SQPSN: e.PSN, MaxRdAtomic: min(e.InitiatorDepth, peer.ResponderResources),
		Timeout: connectTimeout, RetryCnt: connectRetryCnt, RNRRetry: connectRNRRetry,
	}
	return rtr, rts
}
