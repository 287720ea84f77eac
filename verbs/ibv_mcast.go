//go:build linux && cgo && !nolibibverbs

// The C wall: multicast groups.

package verbs

// #include "ibv_shim.h"
import "C"

func (q *ibvQP) AttachMcast(gid GID, lid uint16) error {
	c := encodeGID(gid)
	return errnoErr(C.rv_attach_mcast(q.qp, &c, C.uint16_t(lid)))
}

func (q *ibvQP) DetachMcast(gid GID, lid uint16) error {
	c := encodeGID(gid)
	return errnoErr(C.rv_detach_mcast(q.qp, &c, C.uint16_t(lid)))
}

func encodeGID(gid GID) (c C.union_ibv_gid) {
	copy(c[:], gid[:])
	return c
}
