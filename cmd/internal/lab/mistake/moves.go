// Mistakes of ibv_modify_qp: the kernel answers EINVAL and nothing else.

package mistake

import (
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
)

var moves = []Mistake{
	{
		Name:     "missing-mask-bit",
		Title:    "a move to INIT whose mask lacks PORT",
		Setting:  "The client fills in every attribute that INIT needs: PKEY_INDEX, PORT_NUM and ACCESS_FLAGS. It calls ibv_modify_qp with the mask IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS.",
		Question: "The port number in the structure is right. Does the move succeed? What does the program learn?",
		Why:      "The mask says which fields of the structure count. A field whose bit is not set does not exist for the kernel, even if it has a value. RESET→INIT requires PORT, so the kernel returns EINVAL (22), and EINVAL does not name the bit.",
		Remedy:   "Set IBV_QP_PORT. \"rdma_lab states RESET INIT\" lists the bits of the move. qpstate.Machine makes the whole mask.",
		Expect:   expect{Client: outcome(qpstate.Reset, syscall.EINVAL), Server: outcome(qpstate.Reset)},
		run: func(b *bench) {
			mask := required(qpstate.Reset, qpstate.Init) &^ qpstate.MaskPort
			b.client.modify(qpstate.Reset, qpstate.Init, mask)
		},
	},
	{
		Name:     "forbidden-bit",
		Title:    "a move to RTR whose mask has PORT",
		Setting:  "The client's queue pair is in INIT. The client calls ibv_modify_qp for RTR with every bit that RTR requires, and with IBV_QP_PORT as well, because the path has a port number too.",
		Question: "The port number is the one that INIT got. Does one bit too many matter?",
		Why:      "Each move has required bits and optional bits, and every other bit is forbidden. PORT belongs to INIT. The port of the path is a field of the address vector (ah_attr.port_num), which the bit AV covers.",
		Remedy:   "Drop IBV_QP_PORT. \"rdma_lab states INIT RTR\" lists the bits that the move takes.",
		Expect:   expect{Client: outcome(qpstate.Init, syscall.EINVAL), Server: outcome(qpstate.Reset)},
		run: func(b *bench) {
			b.client.modify(qpstate.Reset, qpstate.Init, required(qpstate.Reset, qpstate.Init))
			b.client.modify(qpstate.Init, qpstate.RTR, required(qpstate.Init, qpstate.RTR)|qpstate.MaskPort)
		},
	},
	{
		Name:     "skipped-state",
		Title:    "a move from INIT to RTS",
		Setting:  "The client only sends and never receives. So it leaves out RTR, \"ready to receive\", and moves its queue pair from INIT to RTS.",
		Question: "The client needs no receive side. Can it leave out RTR?",
		Why:      "The table of moves has no row INIT→RTS. RTR gives the queue pair the path to the peer, the peer's number and the PSN that it expects. A sender needs these too: acknowledgements and READ responses arrive as packets.",
		Remedy:   "Move INIT→RTR→RTS. \"rdma_lab states\" prints all moves.",
		Expect:   expect{Client: outcome(qpstate.Init, syscall.EINVAL), Server: outcome(qpstate.Reset)},
		run: func(b *bench) {
			b.client.modify(qpstate.Reset, qpstate.Init, required(qpstate.Reset, qpstate.Init))
			b.client.modify(qpstate.Init, qpstate.RTS, required(qpstate.RTR, qpstate.RTS))
		},
	},
}
