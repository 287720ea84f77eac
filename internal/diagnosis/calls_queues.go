// The errnos of calls on completion queues, shared receive queues, queue pairs and address
// handles, except for the moves of a queue pair and posts.

package diagnosis

import (
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
)

var queueCalls = []group{{"docs/glossary.md#cq", []Entry{
	in(Finding, "", locked(enomem("ibv_create_cq ibv_create_cq_ex", "the device has no more CQs, or the limit of locked memory is reached", "use a smaller depth; or "+memlock))),
	einval("ibv_create_cq ibv_create_cq_ex", "the depth is 0 or above the device's max_cqe", "use a depth from 1 to the device's max_cqe"),
	unsupported("ibv_create_cq_ex", "the device does not report one of the fields, or lacks a flag", "ask for fewer of CQInit.Ex and CQInit.Flags: WCExStandard is what most devices have"),
	in(Posting, "", einval("ibv_resize_cq", "the CQ has more completions than the new depth, or the depth is beyond max_cqe",
		"use a depth of at least the number of completions in the CQ (poll them first) and at most the device's max_cqe")),
	unsupported("ibv_resize_cq", "the device cannot resize a CQ", "make a new CQ of that depth: this device cannot resize a CQ"),
	einval("ibv_modify_cq", "the count or the period is too large", "use a count up to 65535 and a period up to 65.535 ms, neither below 0"),
	unsupported("ibv_modify_cq", "the device has no moderation", "leave the call out: this device has no moderation"),
}}, {"docs/glossary.md#srq", []Entry{
	locked(enomem("ibv_create_srq", "the device has no more SRQs, or the limit of locked memory is reached", "ask for fewer work requests or elements; or "+memlock)),
	einval("ibv_create_srq", "a size is 0 or above the device's limit", "use a MaxWR from 1 to the device's max_srq_wr, and a MaxSGE up to its max_srq_sge"),
	unsupported("ibv_create_srq", "the device has no SRQs", "use a receive queue for each queue pair: this device has no SRQ"),
	einval("ibv_modify_srq", "the limit is above MaxWR, or MaxWR is below the posted receives or above the device's limit",
		"use a limit of at most the SRQ's MaxWR; a MaxWR of at least the receives in the SRQ and at most the device's max_srq_wr"),
	unsupported("ibv_modify_srq", "the device cannot resize an SRQ", "make a new SRQ of that size: this device cannot resize an SRQ"),
	unsupported("ibv_get_srq_num", "the SRQ has no number", "leave the call out: only an XRC peer needs the number"),
}}, {"docs/glossary.md#qp", []Entry{
	locked(enomem("ibv_create_qp", "the device has no more queue pairs, or the limit of locked memory is reached", "ask for fewer work requests or elements; or "+memlock)),
	einval("ibv_create_qp", "a queue, its elements or its inline data are above the device's limits",
		"use queue sizes within the device's limits (max_qp_wr, max_sge), and less inline data"),
	unsupported("ibv_create_qp", "the device does not have this transport type, or this way to post", "use a transport type that the device has (RC is the common one), and PostAuto as the PostPath"),
	in(Posting, "", of("ibv_destroy_qp", "EBUSY", syscall.EBUSY, "the queue pair is a member of a multicast group", "detach it from its multicast groups first (DetachMcast)")),
	in(Posting, "", einval("ibv_attach_mcast", "the queue pair is not UD, the GID is not multicast, or the device has no address of the GID's family",
		"use a UD queue pair, and a multicast GID (::ffff:224.0.0.0/4 or ff00::/8) of an address family that the device has")),
	enomem("ibv_attach_mcast", "the device has no room for more groups or members", "use fewer groups or members: DeviceAttr.MaxMcastGrp, MaxMcastQP and MaxMcastTotalQP"),
	unsupported("ibv_attach_mcast", "the device has no multicast", "send a datagram to each peer: this device has no multicast"),
	einval("ibv_detach_mcast", "the queue pair is not attached to the group", "use a group that the queue pair is attached to"),
	unsupported("ibv_detach_mcast", "the device has no multicast", "leave the call out: this device has no multicast"),
	unsupported("ibv_query_ece ibv_set_ece", "the device does not have ECE, the exchange of enhanced connection options", "connect without ECE: this device does not have it"),
	unsupported("ibv_query_qp_data_in_order", "the device does not guarantee the order of data in memory",
		"wait for the completion instead of reading the memory: this device does not guarantee the order"),
}}, {"docs/glossary.md#ah", []Entry{
	enomem("ibv_create_ah", "the device has no more address handles", "close handles: the device has DeviceAttr.MaxAH of them"),
	einval("ibv_create_ah", "on RoCE the path lacks the GRH, the peer's GID or a filled GID index", "on RoCE set IsGlobal, the peer's GID and a filled GID index of this port"),
	of("ibv_init_ah_from_wc", "ENODATA", errno.NoData, "the port's GID table does not have the address that the datagram was sent to",
		"use the port that received the datagram; its GID table must have the datagram's destination address, which may have been removed since"),
	einval("ibv_init_ah_from_wc", "the completion is not that of a successful UD receive, or the datagram was sent to a multicast group",
		"use the completion of a successful UD receive, and its first 40 bytes; to answer a multicast datagram, use CreateAH"),
	of("ibv_init_ah_from_wc", "EPROTONOSUPPORT", syscall.EPROTONOSUPPORT, "the 40 bytes are neither an IPv4 nor an IPv6 header",
		"use the first 40 bytes of the receive's memory, unchanged since the completion"),
}}}
