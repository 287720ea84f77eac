// Protection domains: only objects of the same domain work together.

package verbs

// PD is a protection domain (struct ibv_pd). A queue pair, and its peer through it, can use only
// the regions and windows of the queue pair's own domain. [Device.AllocPD] makes a domain; it is
// valid until Close.
//
// All methods of a PD may be called at the same time by several goroutines, Close included. If
// Close runs at the same time as a method that makes an object, Close returns EBUSY or the method returns
// net.ErrClosed.
type PD struct {
	handle
	p   ProviderPD
	dev *Device
}

// AllocPD makes a protection domain. The device cannot be closed before the domain is. ENOMEM if
// the device has no free domain, net.ErrClosed if the device is closed.
//
// Implements: struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
func (d *Device) AllocPD() (*PD, error) {
	pd := &PD{dev: d}
	return makeObject(pd, &pd.handle, &pd.p, "PD", "ibv_alloc_pd", "", d.p.AllocPD, &d.handle)
}

// Close frees the domain. EBUSY while it has regions, windows, queue pairs, shared receive queues
// or address handles; the error counts them. Closing again does nothing.
//
// Implements: int ibv_dealloc_pd(struct ibv_pd *pd)
func (pd *PD) Close() error {
	if pd == nil || pd.p == nil {
		return nil
	}
	return pd.close("ibv_dealloc_pd", pd.p.Close)
}
