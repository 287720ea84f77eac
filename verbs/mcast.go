// Multicast: groups of UD queue pairs, each of which gets a copy of what is sent to it.

package verbs

// MulticastQPN is the RemoteQPN of a datagram to a multicast group.
const MulticastQPN = 0xffffff

// AttachMcast makes a UD queue pair a member of a multicast group. Each member gets a copy
// of each datagram whose AH leads to gid, whose RemoteQPN is [MulticastQPN] and whose QKEY is
// the member's. A member that sends to its own group gets a copy, too, on Ethernet. A second
// attachment of the same queue pair to the same group does nothing.
//
// On RoCE gid is ::ffff:224.0.0.0/4 for a group of IPv4, or ff00::/8, and lid is 0; on
// InfiniBand both are what the subnet manager gave. A soft device joins the group of IP
// itself; the calling thread must be in the device's network namespace. With rdma_rxe the
// program must also join it, by any UDP socket on the device's network interface
// (net.ListenMulticastUDP): the kernel drops the packets otherwise.
//
// EINVAL for a queue pair of another type, or a gid that is not multicast; ENOMEM beyond
// the limits of DeviceAttr; errors.ErrUnsupported where there is no multicast;
// net.ErrClosed after Close.
//
// Implements: int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (qp *QP) AttachMcast(gid GID, lid uint16) error {
	return qp.call("ibv_attach_mcast", qp.name()+", group "+gid.String(), func() error {
		p, err := optional[ProviderMcast](qp.p)
		if err != nil {
			return err
		}
		return p.AttachMcast(gid, lid)
	})
}

// DetachMcast ends what [QP.AttachMcast] began. A queue pair that is attached cannot be
// closed: Close returns EBUSY. Datagrams that came before may still complete receives.
//
// EINVAL for a group that the queue pair is not attached to; net.ErrClosed after Close.
//
// Implements: int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
func (qp *QP) DetachMcast(gid GID, lid uint16) error {
	return qp.call("ibv_detach_mcast", qp.name()+", group "+gid.String(), func() error {
		p, err := optional[ProviderMcast](qp.p)
		if err != nil {
			return err
		}
		return p.DetachMcast(gid, lid)
	})
}
