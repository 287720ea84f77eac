// Multicast: groups of UD queue pairs. Each member gets a copy of every datagram to the group.

package verbs

// MulticastQPN is the RemoteQPN of a datagram to a multicast group.
const MulticastQPN = 0xffffff

// AttachMcast makes a UD queue pair a member of a multicast group. Each member gets a copy of each
// datagram whose AH leads to gid, whose RemoteQPN is [MulticastQPN] and whose QKEY is the member's.
// On Ethernet a member also gets a copy of its own datagrams. Attaching a queue pair twice to one
// group does nothing.
//
// On RoCE gid is ::ffff:224.0.0.0/4 for an IPv4 group, or ff00::/8, and lid is 0. On InfiniBand
// the subnet manager assigns both. A soft device joins the IP group itself; the calling thread
// must be in the device's network namespace. With rdma_rxe the program must also join the group with
// any UDP socket on the device's network interface (net.ListenMulticastUDP), because otherwise the
// kernel drops the packets.
//
// EINVAL for a queue pair of another type, or a gid that is not multicast; ENOMEM above the limits
// in DeviceAttr; errors.ErrUnsupported if the device has no multicast; net.ErrClosed after Close.
//
// Implements: int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (qp *QP) AttachMcast(gid GID, lid uint16) error {
	return callOptional(&qp.handle, qp.p, "ibv_attach_mcast", qp.name()+", group "+gid.String(),
		func(p ProviderMcast) error { return p.AttachMcast(gid, lid) })
}

// DetachMcast ends a membership made with [QP.AttachMcast]. Close of an attached queue pair returns
// EBUSY. Datagrams that arrived before DetachMcast may still complete receives.
//
// EINVAL if the queue pair is not attached to the group; net.ErrClosed after Close.
//
// Implements: int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (qp *QP) DetachMcast(gid GID, lid uint16) error {
	return callOptional(&qp.handle, qp.p, "ibv_detach_mcast", qp.name()+", group "+gid.String(),
		func(p ProviderMcast) error { return p.DetachMcast(gid, lid) })
}
