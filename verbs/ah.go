// Address handles: where a datagram goes.

package verbs

import (
	"context"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
)

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
// of the GID table, ETIMEDOUT, ENETUNREACH or EHOSTUNREACH if the peer is not found. On RoCE it
// may take seconds, while the kernel looks for the peer: see [PD.CreateAHContext]. Meanwhile
// the domain's Close is EBUSY, at once.
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

// CreateAHContext is [PD.CreateAH], and returns when ctx ends. The error is then ctx.Err() and
// context.Cause(ctx) to errors.Is. The kernel goes on with the call: the domain's Close is
// EBUSY until the kernel is done, and a handle that comes late is closed.
func (pd *PD) CreateAHContext(ctx context.Context, attr AHAttr) (*AH, error) {
	const op = "ibv_create_ah"
	if ctx.Err() != nil {
		return nil, fail(op, pd.device, attr.String(), ctxwatch.Err(ctx))
	}
	ah, err := within(ctx, func() (*AH, error) { return pd.CreateAH(attr) },
		func(late *AH) { _ = late.Close() }) // a handle that stays is reported as a leak
	if _, ok := err.(*Error); err == nil || ok {
		return ah, err
	}
	return nil, fail(op, pd.device, attr.String(), err)
}

// Provider is the provider's side of the handle. For providers.
func (ah *AH) Provider() ProviderAH { return ah.p }

// Close destroys the handle; sends posted with it must have completed. Closing again
// does nothing.
//
// Implements: int ibv_destroy_ah(struct ibv_ah *ah)
func (ah *AH) Close() error { return ah.close("ibv_destroy_ah", ah.p.Close) }
