// Symptoms: what a person sees that is not one errno, status or event.

package diagnosis

func symptom(k string, s Section, text, cause, remedy string, about ...string) Entry {
	return Entry{Key: k, Kind: Symptom, Section: s, Symptom: text, Cause: cause, Remedy: remedy, About: about}
}

const (
	retry    = "IBV_WC_RETRY_EXC_ERR"
	access   = "IBV_WC_REM_ACCESS_ERR"
	invalid  = "IBV_WC_REM_INV_REQ_ERR"
	loc      = "IBV_WC_LOC_PROT_ERR"
	rnr      = "IBV_WC_RNR_RETRY_EXC_ERR"
	flush    = "IBV_WC_WR_FLUSH_ERR"
	tooLong  = "IBV_WC_LOC_LEN_ERR"
	wrongPSN = "make each end's rq_psn the peer's sq_psn"
)

var symptoms = []group{{"docs/errors.md#completions", []Entry{
	symptom("large-messages", Completions, "RETRY_EXC_ERR (12) only with large messages; small ones work", "path_mtu is above the link's MTU; rxe checks only max_mtu",
		"use the smaller active MTU of both ends; 1024 on a 1500 byte link", retry),
	symptom("mtu-differs", Completions, "LOC_LEN_ERR (1), REM_INV_REQ_ERR (9) with messages of several packets", "the two ends' path_mtu differ",
		"exchange the MTU, and use the smaller one at both ends", tooLong, invalid),
	symptom("peer-killed", Completions, "REM_ACCESS_ERR (10), and the peer is gone", "the peer was killed: the kernel frees its regions before its queue pairs", "read its output", access),
	symptom("no-local-write", Completions, "LOC_PROT_ERR (4) of a receive, a READ or an atomic", "the region here lacks LOCAL_WRITE: the device has to write to it",
		"register with `verbs.AccessLocalWrite`", loc),
	symptom("moved-buffer", Completions, "LOC_PROT_ERR (4), or wrong data, after a while", "the buffer was freed or moved while its request was posted",
		"use memory outside Go's heap (`PD.AllocMR`); keep the MR open until the completion", loc),
	symptom("flushes", Completions, "a flood of WR_FLUSH_ERR (5)", "the QP had gone to ERR before", "find the first status that is not 5; [leave-early](jobs/exchange.md#leave-early) shows a flush", flush),
	symptom("no-completion", Completions, "a send hangs: it is posted, and no completion comes",
		"the device still tries (RNR_RETRY 7 and TIMEOUT 0 have no end); the request is unsignaled; or the program polls another CQ, or waits without having armed and polled again",
		"post receives at the peer; set TIMEOUT 14, RETRY_CNT 7 and an RNR_RETRY below 7; signal the request; arm the CQ, then poll, then wait"),
	symptom("stalls", Completions, "stalls of 0.6 s without an error", "MIN_RNR_TIMER is 0, which stands for 655 ms, and RNR_RETRY 7 hides the retries",
		"set MIN_RNR_TIMER 12, which stands for 0.64 ms; post receives in time", rnr),
	symptom("psn", Completions, "nothing arrives; often RETRY_EXC_ERR (12) in the end", "rq_psn is not the peer's sq_psn: if rq_psn is too low, a packet seems lost; if it is too high, packets count as duplicates",
		wrongPSN, retry),
}}, {"docs/errors.md#events", []Entry{
	symptom("srq-limit-once", Events, "IBV_EVENT_SRQ_LIMIT_REACHED came only once", "the limit disarms itself", "call `SRQ.Modify` with `SRQLimit` again, after posting more", "IBV_EVENT_SRQ_LIMIT_REACHED"),
}}, {"docs/on-the-wire.md", []Entry{
	symptom("empty-capture", Wire, "a capture shows nothing", "one rxe device talking to itself bypasses the interface", "use two hosts, or two namespaces"),
	symptom("imm-swapped", Wire, "an immediate (imm_data) looks swapped", "it is big-endian on the wire", "convert it once; this library does it"),
}}, {"docs/oob-protocol.md", []Entry{
	symptom("refused", Exchange, "connect: connection refused", "nothing listens on that port", "start the server first; check the port", "ECONNREFUSED"),
	symptom("silent-peer", Exchange, "\"has sent nothing since its hello\"", "the peer is stopped or busy after that message", "read its output; use a longer timeout", "ETIMEDOUT"),
	symptom("no-more-files", Exchange, "\"cannot accept a connection\" (a warning)", "open files or memory ran short: the listener pauses and goes on",
		"raise `ulimit -n`; make fewer connections at a time", "EMFILE", "ENFILE", "ENOMEM"),
	symptom("close-busy", Exchange, "EBUSY from `rc.Conn.Close`, or beside another error of `rc.Dial`", "objects that the program made in the Conn's domain or on its CQs are still open",
		"close them, then Close the Conn again", "EBUSY"),
}}}
