// Package transport is the protocol of a RoCEv2 device: queue pairs, memory regions and
// completion queues, and the requester and responder that exchange packets. It has no socket
// and no clock. The caller passes in packets, work requests and the time. The package returns
// packets, completions, events and the next deadline.
//
// # Objects
//
//	e := transport.New(transport.Config{…})
//	pd, _ := e.AllocPD()                         Close
//	cq, _ := e.CreateCQ(transport.CQInit{…})     Depth Poll PollEx Arm Resize Moderate Due Close
//	mr, _ := pd.RegisterMR(buf, access)          LKey RKey Addr Rereg Close
//	mw, _ := pd.AllocMW(kind)                    RKey Close
//	srq, _ := pd.CreateSRQ(wrs, sges)            PostRecv Modify Query Number Close
//	ah, _ := pd.CreateAH(attr)                   is a verbs.ProviderAH
//	qp, _ := pd.CreateQP(transport.QPInit{…})    QPN Cap Modify Query PostSend PostRecv BindMW Close
//
// Methods return the same errors as the kernel's rxe: a syscall.Errno, or an error that wraps
// one (*qpstate.TransitionError wraps EINVAL). This package does not check the order in which
// objects are closed; package verbs does.
//
// # Driving it
//
//	packets:    check the ICRC of each datagram, then call e.Receive(now, batch)
//	time:       at e.Deadline(), call e.Advance(now)
//	after these two, and after PostSend, BindMW, Modify and Close of a queue pair:
//	            for bursts := e.Transmit(now, outbox); len(bursts) > 0; bursts = e.Transmit(now, outbox) {
//	                    write the ICRC of each packet, and send the packets
//	            }
//
// now is the time since any fixed moment. It should not run backwards by much.
//
// A caller that cannot send some bursts at once says so (outlet.go).
//
// An Outbox belongs to one goroutine. Several goroutines may transmit, each with its own
// Outbox, and the packets of a queue pair still leave in order: the Outbox holds the queue
// pair until the next Transmit with that Outbox. So a goroutine that stops before
// Transmit returns no bursts must call Release. Otherwise no goroutine serves the held queue
// pairs.
//
// # The life of a packet
//
//  1. PostSend checks the work requests and copies them into the send queue (post.go).
//     Unlocking the queue pair puts it on the ready list.
//  2. Transmit takes queue pairs from the ready list in turn. Each fills a burst with packets
//     that lie back to back (transmit.go). Responses go before requests (qp.go).
//  3. The requester starts the next work request, numbers its packets, and copies the payload
//     into each packet (requester.go).
//  4. At the peer, Receive parses the packet and finds its queue pair by number (engine.go).
//     The queue pair drops packets of another transport, partition or peer (qp.go).
//  5. The responder compares the packet's number with the expected one. It serves the expected
//     packet: it takes a receive, moves the payload and pushes a completion (responder.go,
//     responder_words.go, ud.go). It refuses a bad request with a NAK (refusal.go).
//  6. The responder then owes an ACK, a NAK or a response with data. The next Transmit sends
//     them, with one ACK for many packets (responder_answers.go).
//  7. Back at the sender, the ACK or response moves the requester's window and completes work
//     requests (requester_acks.go).
//  8. If no answer comes, the queue pair's timer expires in Advance. The requester then sends
//     again from the oldest unacknowledged packet (timers.go, requester_acks.go). Most losses are
//     repaired long before (recovery.go, recovery_reads.go, reorder.go).
//
// # Division of work with the link
//
// The link computes the ICRC, because the ICRC covers the IPv4 identification. Under UDP
// segmentation offload, that is the packet's index in its burst. Transmit leaves four bytes for
// the ICRC at the end of each packet, and Receive expects packets whose ICRC is verified.
//
// Config.Resolve turns an address vector into a Path of the link. The UDP port is
// packet.Port; packets with a flow label leave from another one (Path.Source).
//
// Path.Flight should not exceed the bytes that fit into the peer's socket buffer, or into this side's
// (route.go), and Config.Window the packets. Config.ReadChunk times MAX_QP_RD_ATOMIC should not exceed the number
// that fit into this side's.
//
// # Locks
//
// Each queue pair has a lock. Posting, receiving, transmitting and timers of one queue pair
// exclude each other; those of different queue pairs do not. A goroutine takes further locks in
// this order: the queue pair's, the SRQ's, the CQ's, the window's, the region's (for reading,
// while it copies bytes), then those of the keys, the table of routes, the fair queues, the outlet, the ready
// list and the timers. Callbacks run under these locks.
//
// # Differences from rxe
//
//   - RETRY_CNT 7 means seven retries, as in hardware. In rxe it means no limit.
//   - If a receive is too small, the responder of RC reports LOC_LEN_ERR, and so do UC and UD
//     with an SRQ; rxe reports REM_INV_REQ_ERR. UC and UD without an SRQ drop the message,
//     as in rxe.
//   - After a failed send, UC and UD are in SQE, as specified.
//   - A responder that refused a request repeats its NAK, because the first NAK may be lost.
//     rxe does not answer, and the requester waits for its timeout.
//   - SQ_DRAINED is reported if EN_SQD_ASYNC_NOTIFY asked for it.
//   - The receives of an SRQ use memory of the SRQ's domain, not of the queue pair's.
//   - A window of type 2 can be invalidated only on the queue pair that it was bound on. In
//     rxe any queue pair can invalidate it.
//   - Closing a region with windows bound to it returns EBUSY; rxe returns EINVAL.
package transport
