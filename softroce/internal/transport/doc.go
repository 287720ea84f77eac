// Package transport is the protocol of a RoCEv2 device: queue pairs, memory
// regions, completion queues, and the requester and responder that run between
// them. It has no socket and no clock: packets, work and the time are handed to
// it, and it hands out packets, completions, events and its next deadline.
//
// # Objects
//
//	e := transport.New(transport.Config{…})
//	pd := e.AllocPD()
//	cq, _ := e.CreateCQ(transport.CQInit{…})     Depth Poll PollEx Arm Resize Moderate Due
//	mr, _ := pd.RegisterMR(buf, access)          LKey RKey Addr Rereg Close
//	mw, _ := pd.AllocMW(kind)                    RKey Close
//	srq, _ := pd.CreateSRQ(wrs, sges)            PostRecv Modify Query Number
//	ah, _ := pd.CreateAH(attr)                   is a verbs.ProviderAH
//	qp, _ := pd.CreateQP(transport.QPInit{…})    QPN Cap Modify Query PostSend PostRecv BindMW Close
//
// Errors are those of the kernel's rxe: a syscall.Errno, or an error that is
// one (*qpstate.TransitionError is EINVAL). Which object may be closed before
// which is not watched here; package verbs does.
//
// # Driving it
//
//	received:   verify the ICRC of each datagram, then e.Receive(now, batch)
//	time:       at e.Deadline(), e.Advance(now)
//	then, and after PostSend and Modify:
//	            for bursts := e.Transmit(now, outbox); len(bursts) > 0; bursts = e.Transmit(now, outbox) {
//	                    seal the packets of each burst with ICRCs, and send them
//	            }
//
// now is the time since any fixed moment, and never runs backwards by much. An
// Outbox belongs to one goroutine; several may transmit with one each, and a
// queue pair's packets still leave in order, because it stays with the Outbox
// that has it until that one's next Transmit. So a goroutine that stops short of
// the empty answer keeps queue pairs from being served.
//
// # The split with the link
//
// The ICRC is the link's: it covers the IP identification, which under UDP
// segmentation offload is a packet's index in its burst. Packets come with four
// bytes left for it, and are taken as verified. What else the link does is in
// Config.Resolve, which turns an address vector into a Path; the UDP port is
// packet.Port.
//
// Config.Window should not be more packets than the peer's socket buffer holds;
// Config.ReadChunk times MAX_QP_RD_ATOMIC not more than this side's.
//
// # Locks
//
// Each queue pair has its lock; posting, receiving, transmitting and timers of
// one wait for each other, those of different queue pairs do not. Within it come
// the SRQ's, the CQ's, a window's, a region's (for reading, while bytes are copied),
// and last those of the keys, the ready list and the timers. Callbacks run under them.
//
// # Where it may differ from rxe
//
//   - RETRY_CNT 7 is seven retries, as in hardware; rxe takes it for no limit.
//   - A receive too small is LOC_LEN_ERR at the responder of RC, and of UC and UD with
//     an SRQ; rxe says REM_INV_REQ_ERR. UC and UD with receives of their own drop the
//     message, as rxe does.
//   - A failed send leaves UC and UD in SQE, as the specification has it.
//   - A responder that refused a request repeats its NAK, since the first may
//     have been lost; rxe falls silent, and the requester runs into its timeout.
//   - SQ_DRAINED comes if EN_SQD_ASYNC_NOTIFY asked for it.
//   - The memory of an SRQ's receives is of the SRQ's domain, not of the queue pair's.
//   - A window of type 2 is invalidated on the queue pair that it was bound on
//     alone; rxe lets any do it.
//   - A region with windows bound to it is EBUSY; rxe says EINVAL.
package transport
