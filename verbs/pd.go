// Protection domains: objects of one may be used together, of two never.

package verbs

// PD is a protection domain (struct ibv_pd): a queue pair, and who sends to it, reach the
// regions and windows of its own domain and no other's. [Device.AllocPD] makes it; it is
// valid until Close.
//
// Its methods may be called by several goroutines at once.
type PD struct {
	handle
	p   ProviderPD
	dev *Device
}

// AllocPD makes a protection domain. The device cannot be closed before it. ENOMEM if
// the device has no more, net.ErrClosed if it is closed.
//
// Implements: struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	p, err := makeObject(&pd.handle, "PD", "ibv_alloc_pd", "", d.p.AllocPD, &d.handle)
	if err != nil {
		return nil, err
	}
	pd.p = p
	return pd, nil
}

// Close frees the domain; EBUSY, and the error counts them, while it has regions,
// windows, queue pairs, shared receive queues or address handles. Closing again does
// nothing.
//
// Implements: int ibv_dealloc_pd(struct ibv_pd *pd)
func (pd *PD) Close() error { return pd.close("ibv_dealloc_pd", pd.p.Close) }
