// Address handles: where a datagram goes.

package verbs

// AH is the way to a UD peer (struct ibv_ah), which a [SendWR] names. [PD.CreateAH] makes
// it; it is valid until Close, and serves any number of queue pairs of its domain. A post with
// it on another queue pair is EINVAL.
//
// Its methods may be called by several goroutines at once; a post that meets Close is
// taken or EINVAL, one that comes after it is EINVAL.
type AH struct {
	handle
	p ProviderAH
}

// CreateAH makes an address handle. On RoCE attr needs IsGlobal, GRH.DGID,
// GRH.SGIDIndex and PortNum; GRH.HopLimit should be what the way takes, such as 64.
//
// EINVAL for a way that cannot be, ENODATA (EINVAL from some drivers) for an empty slot
// of the GID table, ETIMEDOUT, ENETUNREACH or EHOSTUNREACH if the peer is not found.
//
// Implements: struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
func (pd *PD) CreateAH(attr AHAttr) (*AH, error) {
	ah := &AH{}
	p, err := makeObject(&ah.handle, "AH", "ibv_create_ah", attr.String(),
		func() (ProviderAH, error) { return pd.p.CreateAH(attr) }, &pd.handle)
	if err != nil {
		return nil, err
	}
	ah.p = p
	return ah, nil
}

// Provider is the provider's side of the handle. For providers.
func (ah *AH) Provider() ProviderAH { return ah.p }

// Close destroys the handle; sends posted with it must have completed. Closing again
// does nothing.
//
// Implements: int ibv_destroy_ah(struct ibv_ah *ah)
func (ah *AH) Close() error { return ah.close("ibv_destroy_ah", ah.p.Close) }
