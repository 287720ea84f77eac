// The errnos of ibv_modify_qp, and of ibv_create_ah where the path to the peer is at fault.

package diagnosis

import (
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
)

const (
	path      = "ibv_modify_qp ibv_create_ah"
	neighbour = "mend the route to the peer: its address must answer ARP or neighbour discovery (ping it; check VLAN and netmask)"
)

// modify makes the entry of a cause of EINVAL that ibv_modify_qp has. Errors name the cause
// themselves.
func modify(k, text, cause, remedy string) Entry {
	return symptom(k, Moving, text, cause, remedy, "ibv_modify_qp", "EINVAL")
}

var transitions = []group{{"docs/qp-states.md", []Entry{
	einval("ibv_modify_qp", "the mask has a bit too few or too many for the move, or a value is wrong",
		"on RoCE set IsGlobal, the peer's GID and a filled GID index, both GIDs of one family; set AH.PortNum to INIT's port; set TIMEOUT only at RTR→RTS and SQD→SQD"),
	modify("init-einval", "→INIT EINVAL (the move to INIT fails with EINVAL)", "a mask bit is missing, or the port does not exist",
		"mend what the error names; ports count from 1; `rdma_lab states RESET INIT` lists the bits"),
	modify("no-state-bit", "EINVAL, and the error names a move within one state (INIT→INIT)", "the mask lacks STATE, so `State` was ignored",
		"add `qpstate.MaskState`; `qpstate.Machine` makes whole masks"),
	modify("rtr-no-grh", "→RTR EINVAL", "RoCE without [GRH](glossary.md#grh)", "set is_global=1, dgid and sgid_index: `AH.IsGlobal`, `GRH.DGID`, `GRH.SGIDIndex`"),
	modify("rtr-port", "→RTR EINVAL", "`AH.PortNum` is not INIT's port, or the mask has PORT", "copy the port; drop the bit"),
	modify("rtr-families", "→RTR EINVAL", "one end's GID is link-local (fe80::), the other's IPv4-mapped (::ffff:…)", "use GIDs of one family at both ends"),
	in(Moving, "→RTR ENODATA (EINVAL on old kernels)", of(path, "ENODATA", errno.NoData, "the GID index is an empty slot",
		"use a filled slot of the GID table: list the table and take a RoCE v2 slot of the peer's address family, or leave the index out")),
	in(Moving, "→RTR ETIMEDOUT after about 1 s", of(path, "ETIMEDOUT", syscall.ETIMEDOUT, "ARP or neighbour discovery of the peer's GID failed", neighbour)),
	in(Moving, "→RTR EHOSTUNREACH", of(path, "EHOSTUNREACH", syscall.EHOSTUNREACH, "the peer's address does not answer", neighbour)),
	in(Moving, "→RTR ENETUNREACH", of(path, "ENETUNREACH", syscall.ENETUNREACH, "no route leads from the GID here to the peer's GID",
		"use a GID index here from which a route leads to the peer's GID; both GIDs must be of one family (IPv4-mapped, global or link-local)")),
	in(Moving, "→RTR ENODEV", of(path, "ENODEV", syscall.ENODEV, "the GID's interface is gone or in another network namespace",
		"run in the network namespace of the GID's interface, if the interface still exists")),
	unsupported("ibv_modify_qp", "the device does not support an attribute of the mask", "set fewer attributes: this device does not support all that the mask names"),
	of("ibv_modify_qp", "EPERM", syscall.EPERM, "a QKEY of 0x80000000 and above needs CAP_NET_RAW", "use a QKEY below 0x80000000: larger keys need CAP_NET_RAW"),
	modify("timeout-in-rts", "changing TIMEOUT in RTS: EINVAL", "TIMEOUT may be set only at RTR→RTS and SQD→SQD", "set it in one of these two moves"),
}}, {"docs/glossary.md#gid-index", []Entry{
	symptom("gid-0", Moving, "GID index 0 fails, another works", "slot 0 is link-local, old, or of RoCE v1",
		"choose by type and family (index 1 on rxe); `rdma_lab gids` shows the slots", "ibv_modify_qp", "ENODATA", "ETIMEDOUT"),
	symptom("gid-moved", Moving, "it worked yesterday", "GID indexes move when addresses and links come and go",
		"choose by address and type at start, not by number", "ibv_modify_qp", "ENODATA", "EINVAL", "IBV_EVENT_GID_CHANGE"),
}}}
