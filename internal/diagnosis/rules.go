// The rules that a refused post can have broken. Package verbs finds the rule, and its errors
// print the rule's remedy.

package diagnosis

const (
	sendRefused = "ibv_post_send refuses a request"
	recvRefused = "ibv_post_recv or ibv_post_srq_recv refuses a request"
	openBind    = "set a Bind with a window and a region, both open"
	flushTypes  = "set FlushGlobal, FlushPersistent or both"
)

func sendRule(k, cause, remedy string) Entry {
	return symptom(k, "", sendRefused, cause, remedy, "ibv_post_send", "EINVAL")
}

func recvRule(k, cause, remedy string) Entry {
	return symptom(k, "", recvRefused, cause, remedy, "ibv_post_recv", "ibv_post_srq_recv", "EINVAL")
}

// lacking is a rule about an opcode that a queue pair or a library does not have.
func lacking(k, cause, remedy string) Entry {
	return symptom(k, "", sendRefused, cause, remedy, "ibv_post_send", "EOPNOTSUPP")
}

var rules = []group{{"docs/qp-states.md", []Entry{
	sendRule("send-state", "the queue pair is not in RTS yet", "move the queue pair to RTS, where sends begin"),
	recvRule("recv-state", "the queue pair is in RESET", "move the queue pair to INIT, where receives begin"),
	sendRule("post-stopped", "the queue pair is in SQE or ERR", "look for the first completion that failed, then reset the queue pair"),
}}, {"docs/glossary.md#wr", []Entry{
	sendRule("send-elements", "the request has more elements (SGEs) than were granted", "use fewer elements, or a larger QPCap.MaxSendSGE"),
	recvRule("recv-elements", "the receive has more elements (SGEs) than were granted", "use fewer elements, or a larger QPCap.MaxRecvSGE"),
	recvRule("srq-elements", "the receive has more elements (SGEs) than the SRQ grants", "use fewer elements, or a larger SRQInit.MaxSGE"),
	sendRule("too-long", "the request is longer than the port's largest message", "post several requests"),
	recvRule("recv-srq", "the queue pair takes its receives from the SRQ", "post to the SRQ (SRQ.PostRecv)"),
	sendRule("no-opcode", "SendWR.Opcode is not set", "set an Opcode, such as OpSend"),
	sendRule("opcode-type", "the queue pair's type does not have the opcode", "use an RC queue pair, or an opcode that this type has"),
	lacking("no-atomic-write", "this queue pair has no call for ATOMIC WRITE",
		"use PostWRAPI as QPInit.PostPath, on a device with CapAtomicWrite in DeviceAttrEx.Caps; or an OpRDMAWrite of 8 bytes, which is not guaranteed to be atomic"),
	lacking("no-flush", "the libibverbs of this build has no FLUSH",
		"use an OpRDMARead of the last byte written: it completes when the earlier WRITEs are visible; soft devices have FLUSH"),
}}, {"docs/glossary.md#atomic", []Entry{
	sendRule("atomic-address", "the address of an atomic is not a multiple of 8", "use an aligned address: an atomic works on one aligned 64-bit word"),
	sendRule("atomic-size", "the SGL of an atomic has fewer than 8 bytes", "use an SGL of 8 bytes"),
	sendRule("atomic-write-address", "the address of an ATOMIC WRITE is not a multiple of 8", "use an aligned address: ATOMIC WRITE works on one aligned 64-bit word"),
	sendRule("atomic-write-size", "the SGL of an ATOMIC WRITE is not one element of 8 bytes", "use an SGL of one element of 8 bytes"),
	sendRule("flush-type", "Flush.Type is not set", flushTypes),
	sendRule("flush-bits", "Flush.Type has unknown bits", flushTypes),
	sendRule("flush-level", "Flush.Level is unknown", "set FlushRange or FlushMR"),
}}, {"docs/glossary.md#inline", []Entry{
	sendRule("inline-read", "a READ or an atomic returns data and cannot be inline", "post the request without SendInline"),
	sendRule("inline-size", "the request has more inline bytes than were granted", "post the request without SendInline, or use a larger QPCap.MaxInlineData"),
	sendRule("inline-address", "inline data is of a region whose addresses are not its memory's (`IOVA`, `AccessZeroBased`, a DMA-BUF)",
		"send inline data only from a region without IOVA, ZERO_BASED or a DMA-BUF: it is read from addresses of this process"),
}}, {"docs/glossary.md#ah", []Entry{
	sendRule("no-ah", "the request has no AH", "set an AH, made by PD.CreateAH: a datagram needs the path to its peer"),
	sendRule("closed-ah", "the request's AH is closed", "keep the AH open until its sends have completed"),
	sendRule("foreign-ah", "the request's AH is of another device or protection domain", "use an AH of the queue pair's PD"),
}}, {"docs/glossary.md#mw", []Entry{
	sendRule("no-bind", "the request has no Bind", openBind),
	sendRule("bind-no-window", "the request's Bind has no window", openBind),
	sendRule("bind-no-region", "the request's Bind has no region", openBind),
	sendRule("bind-type-1", "the window is of type 1", "bind it with QP.BindMW, or use a window of type 2"),
	sendRule("bind-closed-window", "the request's window is closed", openBind),
	sendRule("bind-closed-region", "the request's region is closed", openBind),
	sendRule("bind-foreign", "the request's window or region is of another device", "use objects of one opened device"),
	sendRule("bind-key", "the upper 24 bits of RKey differ from those of the window's key", "use IncRKey of the window's key"),
}}}
