// The errnos of posts. Errors print them if package verbs finds no broken rule.

package diagnosis

var posts = []group{{"docs/errors.md#posting", []Entry{
	in(Posting, "", enomem("ibv_post_send", "the queue is full of requests that are unsignaled or whose completions were not polled; or the request has too much inline data or too many SGEs",
		"poll completions before posting more (the send queue is full; most NICs free a place only when its completion or a later one is polled, so unsignaled requests alone need RESET there)")),
	einval("ibv_post_send", "the device refuses the request for a reason of its own", "use an operation that the device's documentation lists: the state, the sizes and the request break no rule of verbs"),
	in(Posting, "", enomem("ibv_post_recv", "the receive queue is full", "poll completions before posting more (the receive queue is full)")),
	einval("ibv_post_recv", "the device refuses the request for a reason of its own", "read the device's documentation: the state, the sizes and the request break no rule of verbs"),
	in(Posting, "", enomem("ibv_post_srq_recv", "the SRQ is full", "poll completions before posting more (the SRQ is full), or use fewer SGEs")),
	einval("ibv_post_srq_recv", "the receive is longer than the port's largest message", "receive no more bytes than the port's largest message (PortAttr.MaxMsgSize)"),
	symptom("post-rules", Posting, "ibv_post_send EINVAL", "the queue pair is below RTS; too many SGEs; UD without an AH, or with another domain's; an opcode that the type lacks; an address of an atomic or ATOMIC WRITE that is not a multiple of 8; a FLUSH without a type",
		"mend the rule that the error names", "ibv_post_send", "EINVAL"),
	symptom("post-unsupported", Posting, "ibv_post_send EOPNOTSUPP", "ATOMIC_WRITE or FLUSH, which this queue pair or library does not have",
		"set `QPInit.PostPath` to `verbs.PostWRAPI` on a device with ATOMIC_WRITE; READ the last byte in place of FLUSH", "ibv_post_send", "EOPNOTSUPP"),
	symptom("post-inline", Posting, "ibv_post_send EINVAL, inline", "the region's addresses are not its memory's (`IOVA`, `AccessZeroBased`)",
		"send without `SendInline`, or from memory under its own addresses", "ibv_post_send", "EINVAL"),
	symptom("bind-order", Posting, "a bind of a type 1 window fails with MW_BIND_ERR (rdma_rxe: WR_FLUSH_ERR)", "a bind on another queue pair was carried out first",
		"wait for each bind's completion", "IBV_WC_MW_BIND_ERR", "IBV_WC_WR_FLUSH_ERR"),
	symptom("recv-on-srq", Posting, "ibv_post_recv EINVAL on a queue pair with an SRQ", "its receives come from the SRQ", "post to the SRQ", "ibv_post_recv", "EINVAL"),
}}}
