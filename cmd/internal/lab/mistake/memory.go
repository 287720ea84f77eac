// Mistakes with memory: keys, bounds, rights, and regions that are closed too early.

package mistake

import (
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// wrongKey added to a key gives a key of no region: the upper 24 bits of a key are an index.
const wrongKey = 0x100

// refused is what both ends report if the server refuses a one-sided request while it has
// a receive posted.
var refused = expect{
	Client: outcome(qpstate.Error, verbs.WCRemAccessErr),
	Server: outcome(qpstate.Error, verbs.WCWRFlushErr).with(verbs.EventQPAccessErr),
}

var memory = []Mistake{
	{
		Name:     "bad-rkey",
		Title:    "a WRITE with a wrong rkey",
		Setting:  "The server has a region with every right, and a receive posted. The client WRITEs 64 bytes to the region's address. The rkey is not the region's.",
		Question: "The address is right and the memory is writable. What happens to the WRITE? And what happens to the server's receive, which the WRITE does not use?",
		Why:      "The server's device looks up the rkey and finds no region. It answers with a NAK: remote access error, and reports IBV_EVENT_QP_ACCESS_ERR to its own program. The NAK ends the connection: both queue pairs go to ERR, and each receive that is posted completes with WR_FLUSH_ERR. The server's program has made no mistake and loses its connection all the same.",
		Remedy:   "Print the server's region (address, length, rkey) at both ends and compare. At the server read the asynchronous event: IBV_EVENT_QP_ACCESS_ERR says that a request of the peer had no right to the memory. The completions there are all WR_FLUSH_ERR and do not say it.",
		Expect:   refused,
		run: func(b *bench) {
			b.connect(0)
			write := b.client.to(b.server, verbs.OpRDMAWrite, 64)
			write.RKey += wrongKey
			b.refused(write, "the server's rkey + 0x100")
		},
	},
	{
		Name:     "out-of-bounds",
		Title:    "a WRITE beyond the end of the server's region",
		Setting:  "The server's region has 4096 bytes. The client WRITEs 64 bytes to its byte 4064. The rkey is right.",
		Question: "The first 32 bytes lie within the region. Are they written?",
		Why:      "The first packet of a WRITE carries address and length of the whole request. The server's device checks them against the region before it writes a byte. So nothing is written, and the client gets REM_ACCESS_ERR.",
		Remedy:   "Check offset plus length against the region's length before you post. Send the length with the address and the rkey in the exchange.",
		Expect:   refused,
		run: func(b *bench) {
			b.connect(0)
			write := b.client.to(b.server, verbs.OpRDMAWrite, 64)
			write.RemoteAddr += regionSize - 32
			b.refused(write, "to byte 4064 of 4096")
		},
	},
	{
		Name:     "lkey-as-rkey",
		Title:    "the server sends its lkey instead of the rkey",
		Setting:  "The server registers memory with LOCAL_WRITE alone. ibv_reg_mr returns a region with an lkey; the server sends this key to the client. The client uses it as rkey for a WRITE.",
		Question: "The key belongs to the right memory. Is it good for a WRITE?",
		Why:      "The lkey is for the server's own work requests. The peer needs the rkey, and a region has a useful rkey only if it was registered with a remote right. Here the region has none, so the server's device refuses the WRITE. On many devices (soft0 and rdma_rxe too) both keys of a region with remote rights are the same number. There the wrong key works by luck, until the program runs on another device.",
		Remedy:   "Register with IBV_ACCESS_REMOTE_WRITE or IBV_ACCESS_REMOTE_READ, and send mr->rkey.",
		Expect:   refused,
		run: func(b *bench) {
			b.connect(0)
			mr := b.server.reg(64, verbs.AccessLocalWrite)
			write := b.client.to(b.server, verbs.OpRDMAWrite, 64)
			write.RemoteAddr, write.RKey = mr.Addr(), mr.LKey()
			b.refused(write, "rkey = the lkey of the server's new region")
		},
	},
	{
		Name:     "missing-local-write",
		Title:    "a READ into a region without LOCAL_WRITE",
		Setting:  "The client registers a region with REMOTE_READ alone and READs 64 bytes of the server's memory into it. Address, rkey and the server's rights are right.",
		Question: "The client only reads. Which right does it lack?",
		Why:      "READ reads the server's memory and writes the client's. The client's device may write to a region only if the region has LOCAL_WRITE. The same holds for receives and for the result of an atomic. The status is LOC_PROT_ERR: the fault lies here, not at the peer.",
		Remedy:   "Register with IBV_ACCESS_LOCAL_WRITE whatever the device has to fill: receives, READs, atomics.",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCLocProtErr),
			Server: outcome(qpstate.RTS)},
		run: func(b *bench) {
			b.connect(0)
			mr := b.client.reg(64, verbs.AccessRemoteRead)
			read := b.client.to(b.server, verbs.OpRDMARead, 64)
			read.SGL = []verbs.SGE{mr.SGE(0, 64)}
			b.client.send(read, "into the new region")
			b.client.sent()
		},
	},
	{
		Name:     "unaligned-atomic",
		Title:    "an atomic at an address that is not a multiple of 8",
		Setting:  "The client posts a fetch-and-add for byte 4 of the server's region. The region has every right.",
		Question: "The 8 bytes lie within the region. Does the atomic succeed?",
		Why:      "Atomics work on aligned words of 8 bytes. soft0 and rdma_rxe refuse the request when it is posted. Other devices send it, and the peer answers with a NAK: the completion is REM_INV_REQ_ERR or REM_ACCESS_ERR.",
		Remedy:   "Put counters and locks at multiples of 8. A region begins at a page, so use offsets that are multiples of 8.",
		Expect:   expect{Client: outcome(qpstate.RTS, syscall.EINVAL), Server: outcome(qpstate.RTS)},
		Also: []variant{{
			expect{Client: outcome(qpstate.Error, verbs.WCRemInvReqErr), Server: outcome(qpstate.Error)},
			"the device sends the request, and the peer refuses it.",
		}, {
			expect{Client: outcome(qpstate.Error, verbs.WCRemAccessErr), Server: outcome(qpstate.Error)},
			"the device sends the request, and the peer refuses it.",
		}},
		run: func(b *bench) {
			b.needAtomics()
			b.connect(0)
			add := b.client.to(b.server, verbs.OpAtomicFetchAndAdd, 8)
			add.RemoteAddr, add.CompareAdd = add.RemoteAddr+4, 1
			if b.client.send(add, "at byte 4") {
				b.client.sent()
			}
		},
	},
	{
		Name:     "memory-closed",
		Title:    "a region that is closed while a receive needs it",
		Setting:  "The server posts a receive, then deregisters the region of this receive. The client sends 64 bytes.",
		Question: "ibv_dereg_mr succeeds although a receive is posted. What happens when the message comes?",
		Why:      "A posted request holds an address and an lkey, not the region. When the message comes, the server's device looks up the lkey and finds nothing. The receive fails at the server, the client gets REM_OP_ERR, and the connection is dead.",
		Remedy:   "Keep each region until every request that names it has completed. To stop early, move the queue pair to ERR, poll all flushed completions, and then deregister.",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCRemOpErr),
			Server: outcome(qpstate.Error, verbs.WCLocProtErr).with(verbs.EventQPReqErr)},
		Also: []variant{{
			expect{Client: outcome(qpstate.Error, verbs.WCRemOpErr), Server: outcome(qpstate.Error, verbs.WCLocQPOpErr)},
			"rdma_rxe completes each receive that it cannot fill with LOC_QP_OP_ERR. The specification has LOC_PROT_ERR for this one.",
		}},
		run: func(b *bench) {
			b.connect(0)
			mr := b.server.reg(64, verbs.AccessLocalWrite)
			b.server.recv(mr.SGE(0, 64))
			b.server.result("ibv_dereg_mr", mr.Close())
			b.client.send(b.client.message(64), "")
			b.client.sent()
			b.server.received()
		},
	},
}

// refused makes a WRITE that the server refuses, while it has a receive posted.
func (b *bench) refused(write verbs.SendWR, note string) {
	b.server.recv(b.server.mr.SGE(0, 64))
	b.client.send(write, note)
	b.client.sent()
	b.server.received()
}

// needAtomics ends the run on a device without atomics.
func (b *bench) needAtomics() {
	device, err := b.client.dev.Query()
	must(err)
	if device.AtomicCap == verbs.AtomicNone {
		b.unsupported("the device has no atomics")
	}
}
