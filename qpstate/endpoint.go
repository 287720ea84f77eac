// Endpoints: the values that two ends exchange, and the attributes of the moves that connect them.

package qpstate

// Endpoint holds what one end of a connection sends to the other about its queue pair. The program
// chooses how to send it; package oob has a message with the same fields. The address is not
// included, because the path to it is an [AHAttr].
type Endpoint struct {
	QPN                uint32 // the queue pair's number, 24 bits
	PSN                uint32 // the first packet number that this end sends, 24 bits; preferably random
	MTU                MTU    // the largest path MTU of this end's port
	InitiatorDepth     uint8  // READs and atomics that this end wants to have in flight
	ResponderResources uint8  // READs and atomics of the peer that this end can serve at once
}

// Connect's timers and retries.
const (
	connectTimeout     = 14 // 67 ms
	connectRetryCnt    = 7
	connectRNRRetry    = 7  // forever
	connectMinRNRTimer = 12 // 0.64 ms
)

// Connect returns the attributes of INIT→RTR and RTR→RTS that connect e's queue pair to peer's. way
// is the path to the peer. The path MTU is the smaller of the two MTUs. In each direction the number
// of READs and atomics in flight is the smaller of the two ends' values. The peer's Connect returns
// the matching attributes.
//
// The queue pair waits 67 ms for an acknowledgement and resends 7 times. For a peer without a posted
// receive it resends forever, every 0.64 ms. To change these timers, set Timeout, RetryCnt and
// RNRRetry of rts and MinRNRTimer of rtr.
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
