// Mistakes with the queues: receives, the send queue, resources for READs.

package mistake

import (
	"fmt"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var queues = []Mistake{
	{
		Name:     "no-receive",
		Title:    "a SEND to a server that has no receive posted",
		Setting:  "Both queue pairs are in RTS. The server has no receive posted. RNR_RETRY is 2, the server's MIN_RNR_TIMER is 0.64 ms. The client sends 64 bytes.",
		Question: "Does the device keep the message until the server posts a receive, as a socket does?",
		Why:      "An RDMA device has no buffer of its own for messages. Without a receive the server's device answers \"receiver not ready\" (RNR NAK) and drops the packet. The client resends after MIN_RNR_TIMER, RNR_RETRY times, and gives up with RNR_RETRY_EXC_ERR. The server's queue pair stays in RTS, and its program notices nothing.",
		Remedy:   "Post receives before RTR, and repost each one before the peer can send again. Do not rely on RNR_RETRY 7: it waits forever, which hides the fault as slowness.",
		Expect:   expect{Client: outcome(qpstate.Error, verbs.WCRNRRetryExcErr), Server: outcome(qpstate.RTS)},
		run: func(b *bench) {
			b.connect(qpstate.MaskRNRRetry | qpstate.MaskMinRNRTimer)
			b.client.send(b.client.message(64), "")
			b.client.sent()
			b.server.nothing()
		},
	},
	{
		Name:     "receive-too-small",
		Title:    "a SEND of 128 bytes to a receive of 64",
		Setting:  "The server has two receives of 64 bytes posted. The client sends 128 bytes.",
		Question: "Does the message fill both receives, or is it cut off, or does it fail?",
		Why:      "A message takes exactly one receive. If it does not fit, the receive fails with LOC_LEN_ERR, the client's send with REM_INV_REQ_ERR, and the next receive is flushed. Nothing is cut off and nothing is spread over two receives. TCP is a stream; this is not.",
		Remedy:   "Agree on the largest message, and post receives of that size. Send larger data as WRITEs, or in several messages.",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCRemInvReqErr),
			Server: outcome(qpstate.Error, verbs.WCLocLenErr, verbs.WCWRFlushErr).with(verbs.EventQPReqErr)},
		Also: []variant{{
			expect{Client: outcome(qpstate.Error, verbs.WCRemOpErr),
				Server: outcome(qpstate.Error, verbs.WCLocQPOpErr, verbs.WCWRFlushErr)},
			"rdma_rxe completes each receive that it cannot fill with LOC_QP_OP_ERR, and reports REM_OP_ERR to the sender.",
		}},
		run: func(b *bench) {
			b.connect(0)
			b.server.recv(b.server.mr.SGE(0, 64))
			b.server.recv(b.server.mr.SGE(64, 64))
			b.client.send(b.client.message(128), "")
			b.client.sent()
			b.server.received()
			b.server.received()
		},
	},
	{
		Name:     "unsignaled-overflow",
		Title:    "more unsignaled requests than the send queue holds",
		Setting:  "The client's send queue has N places. The client posts N+1 WRITEs in one call of ibv_post_send. None of them is signaled, so none produces a completion. The server is late: its queue pair is still in RESET and acknowledges nothing.",
		Question: "The program wants no completions and polls none. Can it post forever?",
		Why:      "A request occupies its place in the send queue until it is done, signaled or not. Most hardware frees a place even later: when the program polls the completion of this request or of a later one. A program without signaled requests polls nothing, and after N requests every ibv_post_send returns ENOMEM. soft0 and rdma_rxe free a place when the acknowledgement comes, so such a program works there until the peer is slow.",
		Remedy:   "Signal at least every N/2-th request, and poll its completion before you post more. Count the requests that are posted and not known to be done.",
		Expect:   expect{Client: outcome(qpstate.RTS, syscall.ENOMEM), Server: outcome(qpstate.Reset)},
		run: func(b *bench) {
			b.wire = nil            // the packets of the N requests show nothing
			must(b.client.toRTS(0)) // an acknowledgement would free places while the client posts
			n := int(b.client.qp.Cap().MaxSendWR)
			wrs := make([]verbs.SendWR, n+1)
			for i := range wrs {
				wrs[i] = b.client.to(b.server, verbs.OpRDMAWrite, 8)
			}
			call := fmt.Sprintf("ibv_post_send, %d unsignaled requests IBV_WR_RDMA_WRITE, N = %d", len(wrs), n)
			b.client.result(call, b.client.qp.PostSend(wrs))
		},
	},
	{
		Name:     "no-read-resources",
		Title:    "a READ to a server whose MAX_DEST_RD_ATOMIC is 0",
		Setting:  "The server's queue pair went to RTR with MAX_DEST_RD_ATOMIC 0, the value that memset leaves. The region and the queue pair permit READ. The client WRITEs 64 bytes, and then READs 64 bytes.",
		Question: "Access flags, rkey and address are right. Why does the READ fail, while a WRITE would succeed?",
		Why:      "A server must remember each READ and atomic that it is answering. MAX_DEST_RD_ATOMIC is the number that it can serve at a time; 0 means that it serves none. The server's device refuses the READ as an invalid request. WRITEs and SENDs need no such place.",
		Remedy:   "Set MAX_DEST_RD_ATOMIC to at least 1 at the end that is read, and MAX_QP_RD_ATOMIC at the end that reads. Both are limited by ibv_query_device.",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCRemInvReqErr),
			Server: outcome(qpstate.Error).with(verbs.EventQPReqErr)},
		run: func(b *bench) {
			b.server.attr.MaxDestRdAtomic = 0
			b.connect(qpstate.MaskMaxRdAtomic | qpstate.MaskMaxDestRdAtomic)
			b.client.send(b.client.to(b.server, verbs.OpRDMAWrite, 64), "")
			b.client.sent()
			b.client.send(b.client.to(b.server, verbs.OpRDMARead, 64), "")
			b.client.sent()
		},
	},
}
