// Address handles: where a datagram goes.

package verbs

// AH is the way to a UD peer (struct ibv_ah), named by a send work request.
type AH struct {
	handle
	p AHProvider
}

// CreateAH makes an address handle. On RoCE attr needs IsGlobal, GRH.DGID,
// GRH.SGIDIndex and PortNum.
//
// Implements: struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
func (pd *PD) CreateAH(attr AHAttr) (*AH, error) {
	ah := &AH{}
	p, err := born(&ah.handle, "AH", "ibv_create_ah", attr.String(),
		func() (AHProvider, error) { return pd.p.CreateAH(attr) }, &pd.handle)
	if err != nil {
		return nil, err
	}
	ah.p = p
	return ah, nil
}

// Provider is the provider's side of the handle. For providers.
func (ah *AH) Provider() AHProvider { return ah.p }

// Close destroys the handle; sends posted with it must have completed.
//
// Implements: int ibv_destroy_ah(struct ibv_ah *ah)
func (ah *AH) Close() error { return ah.close("ibv_destroy_ah", ah.p.Close) }
