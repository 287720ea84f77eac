// Mistakes of the path between the ends: addresses, packet numbers, packet size, a firewall.

package mistake

import (
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// impatient lets the client give up after 6 ms without an answer.
func (b *bench) impatient() { b.client.attr.Timeout, b.client.attr.RetryCnt = 9, 2 }

// unheard sends a message that the server, with a receive posted, does not get.
func (b *bench) unheard() {
	b.server.recv(b.server.mr.SGE(0, 64))
	b.client.send(b.client.message(64), "")
	b.client.sent()
	b.server.nothing()
}

var paths = []Mistake{
	{
		Name:     "wrong-gid",
		Title:    "the client's path leads to a GID that nobody has",
		Setting:  "Both queue pairs reach RTS. The client's address vector has a GID at which there is no device. RETRY_CNT is 2. The server has a receive posted, and the client sends 64 bytes.",
		Question: "Both ends reached RTS without an error. When does the client notice, and how? What does the server notice?",
		Why:      "ibv_modify_qp does not ask the peer: a queue pair reaches RTS alone. The client's packet gets no acknowledgement, so the client sends it again after TIMEOUT, RETRY_CNT times, and gives up. The server never sees a packet. It waits forever, unless the program watches the peer in another way, for example over TCP.",
		Remedy:   "Compare the endpoints that both ends print: GID, QPN, PSN. Exchange them, and do not type them in. RETRY_EXC_ERR always means that no answer came, whatever the reason is.",
		Expect:   expect{Client: outcome(qpstate.Error, verbs.WCRetryExcErr), Server: outcome(qpstate.RTS)},
		Also: []variant{{
			expect{Client: outcome(qpstate.Init, syscall.ETIMEDOUT), Server: outcome(qpstate.RTS)},
			"at the move to RTR the kernel looks for the Ethernet address of a GID in its own subnet (ARP, neighbour discovery). Nobody answered, so the move failed. Behind a router the move succeeds, and the fault shows as RETRY_EXC_ERR.",
		}},
		run: func(b *bench) {
			b.impatient()
			b.client.attr.AH.GRH.DGID = b.nobody()
			must(b.server.toRTS(qpstate.MaskAV))
			if b.client.toRTS(qpstate.MaskAV) != nil {
				return
			}
			b.unheard()
		},
	},
	{
		Name:     "psn-off-by-one",
		Title:    "the server's RQ_PSN is one below the client's SQ_PSN",
		Setting:  "The client's first packet has PSN 0x100, its SQ_PSN. The server's RQ_PSN is 0xff. TIMEOUT is 16 (268.4 ms), RETRY_CNT is 1. The server has a receive posted, and the client sends 64 bytes.",
		Question: "The address and the QPN are right, so the packet reaches the server's queue pair. What does the server do with it? Which status does the client get?",
		Why:      "The server expects PSN 0xff and gets 0x100. So a packet seems lost, and the server answers with a NAK: PSN sequence error, 0xff expected. The client has never sent 0xff and cannot send it again. It resends 0x100 after TIMEOUT, and the server sends no second NAK for the same gap. After RETRY_CNT resends the client gives up. Each time that no answer comes, soft0 doubles its wait, up to four times TIMEOUT.",
		Remedy:   "Set RQ_PSN to the peer's SQ_PSN, at both ends: rq_psn is what the peer sent in the exchange, sq_psn is your own. In a capture look for a NAK 0x60 in answer to the first packet.",
		Expect:   expect{Client: outcome(qpstate.Error, verbs.WCRetryExcErr), Server: outcome(qpstate.RTS)},
		run: func(b *bench) {
			b.client.attr.Timeout, b.client.attr.RetryCnt = 16, 1 // 268 ms: the NAK comes before the resend
			b.server.attr.RQPSN--
			b.connect(qpstate.MaskRQPSN | qpstate.MaskSQPSN)
			b.unheard()
		},
	},
	{
		Name:     "psn-too-high",
		Title:    "the server's RQ_PSN is one above the client's SQ_PSN",
		Setting:  "The client's first packet has PSN 0x100, its SQ_PSN. The server's RQ_PSN is 0x101. The server has two receives posted. The client sends 64 bytes and then 32 bytes.",
		Question: "What does the client see? How many messages does the server receive?",
		Why:      "The server expects PSN 0x101. PSN 0x100 lies before it, so the server takes the packet for a duplicate of one that it has executed. It drops the packet and acknowledges it, as the protocol demands. The client reports success for a message that nobody received. The second message has PSN 0x101 and arrives.",
		Remedy:   "Set RQ_PSN to the peer's SQ_PSN. If a first message is missing although its send succeeded, compare the PSNs of both ends.",
		Expect: expect{Client: outcome(qpstate.RTS, verbs.WCSuccess, verbs.WCSuccess),
			Server: outcome(qpstate.RTS, verbs.WCSuccess)},
		run: func(b *bench) {
			b.server.attr.RQPSN++
			b.connect(qpstate.MaskRQPSN | qpstate.MaskSQPSN)
			b.server.recv(b.server.mr.SGE(0, 64))
			b.server.recv(b.server.mr.SGE(64, 64))
			b.client.send(b.client.message(64), "")
			b.seen("ACK") // of rdma_rxe this ACK has a PSN that counts for nothing
			b.client.send(b.client.message(32), "")
			b.client.sent()
			b.client.sent()
			b.server.received()
			b.server.nothing()
		},
	},
	{
		Name:     "mtu-mismatch",
		Title:    "the ends have different path MTUs",
		Setting:  "The client's PATH_MTU is 1024, the server's is 512. The server has two receives of 1024 bytes posted. The client sends 64 bytes, and then 1024 bytes.",
		Question: "Both messages fit the receives. Which one arrives?",
		Why:      "A message of 64 bytes is one packet for both. The client sends 1024 bytes as one packet too. The server allows 512 bytes per packet and rejects the longer packet as an invalid request. Each end cuts messages by its own PATH_MTU, and nothing compares the two.",
		Remedy:   "Exchange the active MTU of both ports, and use the smaller one at both ends. Small messages that work and large ones that fail point to the MTU. At the server read the asynchronous event: IBV_EVENT_QP_REQ_ERR says that it has refused a request.",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCRemInvReqErr),
			Server: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCWRFlushErr).with(verbs.EventQPReqErr)},
		Also: []variant{{
			expect{Client: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCRemInvReqErr),
				Server: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCRemInvReqErr)},
			"rdma_rxe had taken the receive for the message, and completes it with the client's status.",
		}},
		run: func(b *bench) {
			if b.client.attr.PathMTU <= verbs.MTU512 {
				b.unsupported("the port's active MTU is at most 512 bytes")
			}
			b.server.attr.PathMTU = verbs.MTU512
			b.connect(qpstate.MaskPathMTU)
			b.server.recv(b.server.mr.SGE(0, 1024))
			b.server.recv(b.server.mr.SGE(1024, 1024))
			b.client.send(b.client.message(64), "")
			b.client.sent()
			b.server.received()
			b.client.send(b.client.message(1024), "")
			b.client.sent()
			b.server.received()
		},
	},
	{
		Name:     "port-blocked",
		Title:    "a firewall drops UDP port 4791",
		Setting:  "Both queue pairs are right. Between the ends a firewall drops every packet to UDP port 4791. The exchange over TCP passes it. RETRY_CNT is 2, and the client sends 64 bytes.",
		Question: "How can the client tell this from a wrong GID?",
		Why:      "The client cannot tell. RoCEv2 has no connection set-up that could fail: a queue pair in RTS has never heard of its peer. No acknowledgement comes, so the client resends RETRY_CNT times and reports RETRY_EXC_ERR, as for a wrong GID, a wrong QPN or a dead peer. TCP works, so the exchange proves nothing.",
		Remedy:   "Capture \"udp port 4791\" at both ends. If the packets leave the client and do not reach the server, look at the firewall: nft list ruleset, or the rules of the cloud. If they reach the server, compare GID, QPN and PSN.",
		Expect:   expect{Client: outcome(qpstate.Error, verbs.WCRetryExcErr), Server: outcome(qpstate.RTS)},
		run: func(b *bench) {
			b.impatient()
			b.between("firewall", func(int) bool { return true })
			b.connect(0)
			b.unheard()
		},
	},
	{
		Name:     "lost-packet",
		Title:    "a lost packet, a late receive, and a wrong rkey",
		Setting:  "Between the ends a switch loses one packet: the second of three that carry the client's first message. The client's second message finds no receive; the server posts a receive only after that. Finally the client WRITEs with a wrong rkey.",
		Question: "Three things go wrong. Which of them does the client's program see?",
		Why:      "The server answers each of the three with a NAK. \"PSN sequence error\" names the packet that is missing, and the client resends it. \"RNR NAK\" says how long to wait, and the client resends the message after that. Both repairs are the device's work, so the program sees success. \"Remote access error\" is final: the request fails, and both queue pairs go to ERR.",
		Remedy:   "Print the region at both ends and compare (bad-rkey). Leave the first two alone if they are rare. Each costs time that no completion shows, so look at counters or at a capture when a connection is slow.",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCSuccess, verbs.WCRemAccessErr),
			Server: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCSuccess).with(verbs.EventQPAccessErr)},
		run: func(b *bench) {
			b.between("switch", func(n int) bool { return n == 2 })
			b.server.attr.MinRNRTimer = 31 // 491 ms: time for the receive, so that there is one RNR NAK
			b.connect(qpstate.MaskPathMTU | qpstate.MaskMinRNRTimer)
			b.server.recv(b.server.mr.SGE(0, 3000))
			b.client.send(b.client.message(3000), "")
			b.client.sent()
			b.server.received()
			b.client.send(b.client.message(64), "")
			b.seen("RNR NAK")
			b.server.recv(b.server.mr.SGE(0, 64))
			b.client.sent()
			b.server.received()
			write := b.client.to(b.server, verbs.OpRDMAWrite, 64)
			write.RKey += wrongKey
			b.client.send(write, "the server's rkey + 0x100")
			b.client.sent()
		},
	},
}
