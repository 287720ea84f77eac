// The asynchronous events (enum ibv_event_type).

package diagnosis

func event(number int, name, text, cause, remedy string) Entry {
	return Entry{Kind: Event, Section: Events, Number: number, Name: "IBV_EVENT_" + name, Text: text, Cause: cause, Remedy: remedy}
}

// rareEvent makes the entry of an event that docs/errors.md leaves out.
func rareEvent(number int, name, text, cause, remedy string) Entry {
	e := event(number, name, text, cause, remedy)
	e.Section = ""
	return e
}

const (
	nothing    = "do nothing: this is news, not an error"
	subnetOnly = "do nothing on RoCE, which has no subnet manager"
)

var events = []group{{"docs/errors.md#events", []Entry{
	event(0, "CQ_ERR", "CQ error", "the CQ overran: it had no room for a completion; its queue pairs fail", "make the CQ as deep as the queues that complete there (SQ + RQ); make CQ and queue pairs again"),
	event(1, "QP_FATAL", "local work queue catastrophic error", "the queue pair is in ERR: it could not report a completion, or the device failed", "look for the first completion that failed; then reset the queue pair"),
	event(2, "QP_REQ_ERR", "invalid request local work queue error", "the peer's request broke a rule; the queue pair is in ERR", "look at the peer's failed completion, which has the status; then reset the queue pair"),
	event(3, "QP_ACCESS_ERR", "local access violation work queue error", "the peer's request had no right to the memory; the queue pair is in ERR", "check the rkey, the range and the rights that the peer uses; then reset the queue pair"),
	event(4, "COMM_EST", "communication established", "a message came in RTR, before the move to RTS", "move the queue pair to RTS; this is not an error"),
	event(5, "SQ_DRAINED", "send queue drained", "in SQD, all sends that had begun are done", "change the attributes and go back to RTS; this is not an error"),
	rareEvent(6, "PATH_MIG", "path migrated", "the queue pair moved to its alternate path (InfiniBand)", nothing),
	rareEvent(7, "PATH_MIG_ERR", "path migration request error", "the queue pair could not move to its alternate path (InfiniBand)", "set a new alternate path (ALT_PATH)"),
	event(8, "DEVICE_FATAL", "local catastrophic error", "the device failed, was reset, or is being removed", "close everything and open the device again"),
	event(9, "PORT_ACTIVE", "port active", "the port became active: its link is up", nothing),
	event(10, "PORT_ERR", "port error", "the port is no longer active: its link is down", "check `ip link`, the cable and the switch; queue pairs resend until their retries run out"),
	rareEvent(11, "LID_CHANGE", "LID change", "the subnet manager changed the port's LID (InfiniBand)", subnetOnly),
	event(12, "PKEY_CHANGE", "P_Key change", "the port's table of partition keys changed", "find the index of your P_Key again"),
	rareEvent(13, "SM_CHANGE", "SM change", "another subnet manager took over (InfiniBand)", subnetOnly),
	event(14, "SRQ_ERR", "SRQ catastrophic error", "the SRQ failed and cannot be used any more", "close its queue pairs and the SRQ, and make them again"),
	event(15, "SRQ_LIMIT_REACHED", "SRQ limit reached", "the SRQ has fewer receives than its limit; the limit is now disarmed", "post receives, then call `SRQ.Modify` with `SRQLimit` again"),
	event(16, "QP_LAST_WQE_REACHED", "last WQE reached", "the queue pair went to ERR and takes no more receives from its SRQ", "poll its last completions, and destroy it"),
	rareEvent(17, "CLIENT_REREGISTER", "client reregistration", "the subnet manager asks for all registrations again (InfiniBand)", subnetOnly),
	event(18, "GID_CHANGE", "GID table change", "the port's GID table changed: an address came or went", "choose the GID again for new connections; `rdma_lab gids` lists them"),
	rareEvent(19, "WQ_FATAL", "WQ fatal", "a receive queue of raw packets failed", "close the queue; this library makes no such queue"),
}}}
