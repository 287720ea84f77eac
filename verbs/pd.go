// Protection domains: objects of one may be used together, of two never.

package verbs

// PD is a protection domain (struct ibv_pd).
type PD struct {
	handle
	p   PDProvider
	dev *Device
}

// AllocPD makes a protection domain.
//
// Implements: struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	p, err := born(&pd.handle, "PD", "ibv_alloc_pd", "", d.p.AllocPD, &d.handle)
	if err != nil {
		return nil, err
	}
	pd.p = p
	return pd, nil
}

// Close frees the domain; EBUSY while it has regions, queue pairs or handles.
//
// Implements: int ibv_dealloc_pd(struct ibv_pd *pd)
func (pd *PD) Close() error { return pd.close("ibv_dealloc_pd", pd.p.Close) }
