// What to try: the library's knowledge of what an errno or a completion status
// usually means, by call. docs/errors.md explains each at length.

package verbs

import (
	"strings"
	"syscall"

	"github.com/rawverbs/rawverbs/internal/errno"
)

// hintFor is the advice for an errno from a C call, "" where there is none worth
// giving.
func hintFor(op string, errno syscall.Errno) string {
	h, ok := hints[hintKey{op, errno}]
	if !ok {
		h = hints[hintKey{"", errno}]
	}
	if strings.HasSuffix(h, memlockHint) {
		h += memlockNow()
	}
	return h
}

type hintKey struct {
	op    string // "" for any call
	errno syscall.Errno
}

// What several calls have in common; memlockHint ends a hint.
const (
	portHint      = "a port that exists; ports count from 1"
	slotHint      = "a filled slot of the GID table: list it and take a RoCE v2 one of the peer's family, or leave the index to the program"
	neighbourHint = "the route to the peer: its address must answer ARP or neighbour discovery (ping it; check VLAN and netmask)"
	routeHint     = "a route to the peer's GID from the GID index chosen here; both of one family (IPv4-mapped, or global, or link-local)"
	namespaceHint = "the network namespace of the GID's interface: run there; the interface may be gone"
	memlockHint   = "raise the locked memory limit (ulimit -l unlimited, or LimitMEMLOCK= of the service)"
)

var hints = map[hintKey]string{
	{"ibv_get_device_list", syscall.ENOSYS}: "load the kernel's RDMA core (modprobe ib_uverbs), and in a container map /dev/infiniband/uverbs*",
	{"ibv_open_device", syscall.EACCES}:     "give this user access to /dev/infiniband/uverbs*, or run as root",
	{"ibv_open_device", syscall.EPERM}:      "give this user access to /dev/infiniband/uverbs*, or run as root",
	{"ibv_open_device", syscall.ENOENT}:     "map /dev/infiniband/uverbs* into the container, and install the provider package (ibverbs-providers)",

	{"ibv_open_device", syscall.ENODEV}: "a device that is listed, or soft:INTERFACE or soft:ADDRESS of this host for the one in software",

	{"ibv_query_port", syscall.EINVAL}:             portHint,
	{"ibv_query_pkey", syscall.EINVAL}:             "a port that exists (they count from 1), and an index below PortAttr.PKeyTableLen",
	{"ibv_query_pkey", syscall.ENOENT}:             "a port that exists (they count from 1), and an index below PortAttr.PKeyTableLen",
	{"counters", syscall.EINVAL}:                   portHint,
	{"counters", syscall.EOPNOTSUPP}:               "the counters of the port's network interface (ip -s link): this device has none of its own",
	{"ibv_query_device_ex", syscall.EOPNOTSUPP}:    "Device.Query, which every device answers",
	{"ibv_query_rt_values_ex", syscall.EOPNOTSUPP}: "the host's clock: this device's cannot be read",

	{"ibv_alloc_pd", syscall.ENOMEM}: "closing domains: DeviceAttr.MaxPD is how many the device has",

	{"ibv_get_pkey_index", syscall.ENOENT}:           "0xffff, the key of everybody, or one that QueryPKey lists: the subnet manager (on RoCE the driver) fills the table",
	{"ibv_get_pkey_index", syscall.EINVAL}:           portHint,
	{"ibv_init_ah_from_wc", errno.NoData}:            "the port that the datagram came in by, whose GID table must have the address that it was sent to (it may be gone since)",
	{"ibv_init_ah_from_wc", syscall.EINVAL}:          "the successful receive of a datagram, and its first 40 bytes; to answer a multicast, a handle made by CreateAH",
	{"ibv_init_ah_from_wc", syscall.EPROTONOSUPPORT}: "the first 40 bytes that the datagram's receive filled, as the device left them",

	{"ibv_reg_mr", syscall.ENOMEM}:     memlockHint,
	{"ibv_reg_mr", syscall.EAGAIN}:     "a larger rdma.max in the process's cgroup, or fewer regions",
	{"ibv_reg_mr", syscall.EINVAL}:     "LOCAL_WRITE together with REMOTE_WRITE or REMOTE_ATOMIC, and a length the device can register",
	{"ibv_reg_mr", syscall.EFAULT}:     "memory that is mapped and writable",
	{"ibv_reg_mr", syscall.EOPNOTSUPP}: "fewer rights: which the device has DeviceAttr.CapFlags and Device.QueryEx tell (ON_DEMAND: its ODP)",

	{"ibv_dereg_mr", syscall.EBUSY}:           "invalidating or closing the memory windows that are bound to the region",
	{"ibv_dereg_mr", syscall.EINVAL}:          "invalidating or closing the memory windows that are bound to the region",
	{"ibv_rereg_mr", syscall.EINVAL}:          "flags that say what changes, and the field of each: memory that is not empty, a PD, rights that go together",
	{"ibv_rereg_mr", syscall.EOPNOTSUPP}:      "closing the region and registering the memory anew: this device cannot change one",
	{"ibv_reg_dmabuf_mr", syscall.EBADF}:      "the descriptor of a DMA-BUF that is open",
	{"ibv_reg_dmabuf_mr", syscall.EINVAL}:     "bytes within the DMA-BUF, and an iova whose place within a page is the offset's",
	{"ibv_rereg_mr", syscall.EBUSY}:           "invalidating or closing the memory windows that are bound to the region",
	{"ibv_reg_dmabuf_mr", syscall.EOPNOTSUPP}: "mapping the buffer and registering that with RegMR: this device takes no DMA-BUF",
	{"ibv_advise_mr", syscall.EOPNOTSUPP}:     "going without: advice only saves time, and this device takes none, or not this",
	{"ibv_advise_mr", syscall.EINVAL}:         "at least one SGE, and no flag but AdviseFlush",
	{"ibv_advise_mr", syscall.EFAULT}:         "SGEs within regions of the domain, with LOCAL_WRITE for AdvisePrefetchWrite",
	{"ibv_advise_mr", syscall.ENOENT}:         "SGEs within regions of the domain, registered with ON_DEMAND",
	{"ibv_alloc_mw", syscall.EOPNOTSUPP}:      "regions of the parts' own: this device has no windows of the type (DeviceAttr.CapFlags)",
	{"ibv_alloc_mw", syscall.ENOMEM}:          "closing windows: DeviceAttr.MaxMW is how many the device has",
	{"ibv_alloc_mw", syscall.EINVAL}:          "a window of type 1 or 2",
	{"ibv_bind_mw", syscall.EINVAL}:           "a window of type 1 (type 2 is bound by OpBindMW), a region even for 0 bytes, a queue pair in RTS",
	{"ibv_bind_mw", syscall.EPERM}:            "window and region of one protection domain",
	{"ibv_bind_mw", syscall.ENOMEM}:           "polling completions before posting more (the send queue is full)",
	{"ibv_bind_mw", syscall.EOPNOTSUPP}:       "a window of type 2 and OpBindMW: this device binds none of type 1",
	{"ibv_query_gid_ex", errno.NoData}:        "a filled slot: list them with QueryGIDTable",
	{"ibv_query_gid_ex", syscall.EINVAL}:      "a port that exists (they count from 1), and an index within its table",

	{"ibv_create_cq", syscall.ENOMEM}:                  "a smaller depth; or " + memlockHint,
	{"ibv_create_cq", syscall.EINVAL}:                  "a depth from 1 to the device's max_cqe",
	{"ibv_create_cq_ex", syscall.ENOMEM}:               "a smaller depth; or " + memlockHint,
	{"ibv_create_cq_ex", syscall.EINVAL}:               "a depth from 1 to the device's max_cqe",
	{"ibv_create_cq_ex", syscall.EOPNOTSUPP}:           "fewer of CQInit.Ex and CQInit.Flags: WCExStandard is what most devices have",
	{"ibv_resize_cq", syscall.EINVAL}:                  "a depth from the completions that are in it (poll first) to the device's max_cqe",
	{"ibv_resize_cq", syscall.EOPNOTSUPP}:              "a new CQ of the depth: this device cannot resize one",
	{"ibv_modify_cq", syscall.EINVAL}:                  "a count up to 65535 and a period up to 65.535 ms, neither below 0",
	{"ibv_modify_cq", syscall.EOPNOTSUPP}:              "going without moderation: this device has none",
	{"ibv_create_srq", syscall.ENOMEM}:                 "fewer work requests or elements; or " + memlockHint,
	{"ibv_create_srq", syscall.EINVAL}:                 "MaxWR from 1 to the device's max_srq_wr, MaxSGE to its max_srq_sge",
	{"ibv_create_srq", syscall.EOPNOTSUPP}:             "a receive queue for each queue pair: this device has no SRQ",
	{"ibv_modify_srq", syscall.EINVAL}:                 "a limit no more than the SRQ's MaxWR, a MaxWR no less than the receives in it and no more than the device's max_srq_wr",
	{"ibv_modify_srq", syscall.EOPNOTSUPP}:             "a new SRQ of the size: this device cannot resize one",
	{"ibv_get_srq_num", syscall.EOPNOTSUPP}:            "going without: only an XRC peer needs it",
	{"ibv_create_qp", syscall.ENOMEM}:                  "fewer work requests or elements; or " + memlockHint,
	{"ibv_create_qp", syscall.EINVAL}:                  "queue sizes within the device's limits (max_qp_wr, max_sge), and less inline data",
	{"ibv_create_qp", syscall.EOPNOTSUPP}:              "a transport type that the device has (RC is the common one), and PostAuto as the PostPath",
	{"ibv_destroy_qp", syscall.EBUSY}:                  "DetachMcast from its multicast groups first",
	{"ibv_attach_mcast", syscall.EINVAL}:               "a UD queue pair, and a multicast GID (::ffff:224.0.0.0/4 or ff00::/8) of a family that the device has an address of",
	{"ibv_attach_mcast", syscall.ENOMEM}:               "fewer groups or members: DeviceAttr.MaxMcastGrp, MaxMcastQP and MaxMcastTotalQP",
	{"ibv_attach_mcast", syscall.EOPNOTSUPP}:           "a datagram to each peer: this device has no multicast",
	{"ibv_detach_mcast", syscall.EINVAL}:               "a group that the queue pair is attached to",
	{"ibv_detach_mcast", syscall.EOPNOTSUPP}:           "nothing: this device has no multicast",
	{"ibv_query_ece", syscall.EOPNOTSUPP}:              "connecting without ECE: this device has none",
	{"ibv_set_ece", syscall.EOPNOTSUPP}:                "connecting without ECE: this device has none",
	{"ibv_query_qp_data_in_order", syscall.EOPNOTSUPP}: "waiting for the completion instead of looking at the memory: this device promises no order",
	{"ibv_create_ah", syscall.ENOMEM}:                  "closing handles: DeviceAttr.MaxAH is how many the device has",
	{"ibv_create_ah", errno.NoData}:                    slotHint,
	{"ibv_create_ah", syscall.ETIMEDOUT}:               neighbourHint,
	{"ibv_create_ah", syscall.EHOSTUNREACH}:            neighbourHint,
	{"ibv_create_ah", syscall.ENETUNREACH}:             routeHint,
	{"ibv_create_ah", syscall.ENODEV}:                  namespaceHint,
	{"ibv_create_ah", syscall.EINVAL}:                  "on RoCE IsGlobal, the peer's GID and a filled GID index of this port",
	{"ibv_modify_qp", errno.NoData}:                    slotHint,
	{"ibv_modify_qp", syscall.ETIMEDOUT}:               neighbourHint,
	{"ibv_modify_qp", syscall.ENETUNREACH}:             routeHint,
	{"ibv_modify_qp", syscall.EHOSTUNREACH}:            neighbourHint,
	{"ibv_modify_qp", syscall.ENODEV}:                  namespaceHint,
	{"ibv_modify_qp", syscall.EOPNOTSUPP}:              "fewer attributes: this device has not all that the mask names",
	{"ibv_modify_qp", syscall.EPERM}:                   "a QKEY below 0x80000000: the others are for CAP_NET_RAW",
	{"ibv_modify_qp", syscall.EINVAL}:                  "on RoCE IsGlobal, the peer's GID and a filled GID index, both GIDs of one family; AH.PortNum equal to INIT's port; TIMEOUT only at RTR→RTS",

	// Posts: what is left when hints_post.go finds no broken rule.
	{"ibv_post_send", syscall.ENOMEM}:     "poll completions before posting more (the send queue is full: unsignaled requests free their place only with a later signaled one)",
	{"ibv_post_send", syscall.EINVAL}:     "an operation that this device has, by its documentation: state, sizes and request break no rule of verbs",
	{"ibv_post_recv", syscall.ENOMEM}:     "poll completions before posting more (the receive queue is full)",
	{"ibv_post_recv", syscall.EINVAL}:     "the device's documentation: state, sizes and request break no rule of verbs",
	{"ibv_post_srq_recv", syscall.ENOMEM}: "polling completions before posting more (the SRQ is full), or fewer SGEs",
	{"ibv_post_srq_recv", syscall.EINVAL}: "no more bytes than the port's largest message (PortAttr.MaxMsgSize)",

	{"", syscall.ENOMEM}: "closing objects that are not needed (Device.Query tells the device's limits); or " + memlockHint,
	{"", syscall.EAGAIN}: "a larger rdma.max in the process's cgroup, or fewer objects",
	{"", syscall.EMFILE}: "a higher limit of open files (ulimit -n)",
	{"", syscall.EIO}:    "opening the device again: it was removed or reset",
	{"", syscall.ENODEV}: "listing the devices: this one is gone",
}

// statusHint is the advice for a failed completion.
func statusHint(s WCStatus) string {
	switch s {
	case WCLocLenErr:
		return "a local buffer was too small for the message, or the peers' path MTUs differ"
	case WCLocQPOpErr:
		return "the request does not fit the queue pair (opcode, length, or a limit of it); or the peers' path MTUs differ"
	case WCLocProtErr:
		return "a local SGE is refused: its lkey, range or protection domain is wrong, its MR is closed, or the region lacks LOCAL_WRITE, which receives, READs and atomics need"
	case WCWRFlushErr:
		return "the queue pair had left RTS for ERR; look for the first completion whose status is not this one"
	case WCMWBindErr:
		return "the window's region lacks MW_BIND (or LOCAL_WRITE, for a window to be written), is too small or of another protection domain; or the window is bound already"
	case WCRemInvReqErr:
		return "the peer refused the request: its QP lacks the access flag, max_dest_rd_atomic is 0 there, its receive is too small, or an atomic's address is not a multiple of 8; with long messages, the peers' path MTUs differ"
	case WCRemAccessErr:
		return "the peer refused the memory: rkey, address, length, the region's access flags or its protection domain (an lkey is no rkey)"
	case WCRemOpErr:
		return "the peer could not complete the request (rdma_rxe: its receive was too small); its own completion says why"
	case WCRetryExcErr:
		return "no ACK came: is the peer's program gone, stopped or overloaded, is its queue pair in RTR, are QPN, GID and PSN right, is UDP port 4791 open both ways, does path_mtu fit the link?"
	case WCRNRRetryExcErr:
		return "the peer had no receive posted: post receives before RTR, or set RNR_RETRY to 7 (for ever)"
	case WCFatalErr, WCGeneralErr:
		return "the device failed; look at the kernel's log"
	}
	return ""
}
