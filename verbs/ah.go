// Address handles: the path of a datagram.

package verbs

import (
	"context"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
)

// AH is the path to a UD peer (struct ibv_ah). A [SendWR] of a UD queue pair names it.
// [PD.CreateAH] makes an AH; it is valid until Close. Any number of queue pairs of its domain may
// use it. A post with it on a queue pair of another domain returns EINVAL.
//
// All methods of an AH may be called at the same time by several goroutines, Close included, and
// during posts that name the AH. A post during Close either queues the request or returns EINVAL; a
// post after Close returns EINVAL.
type AH struct {
	handle
	p ProviderAH
}

// CreateAH makes an address handle. On RoCE attr needs IsGlobal, GRH.DGID, GRH.SGIDIndex and
// PortNum; GRH.HopLimit should allow all routers of the path, such as 64.
//
// EINVAL for an invalid path, ENODATA (EINVAL from some drivers) for an empty slot of the GID
// table, ETIMEDOUT, ENETUNREACH or EHOSTUNREACH if the kernel does not find the peer. On RoCE
// CreateAH may take seconds, while the kernel looks for the peer: see [PD.CreateAHContext]. The
// domain's Close returns EBUSY at once meanwhile.
//
// Implements: struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
func (pd *PD) CreateAH(attr AHAttr) (*AH, error) {
	ah := &AH{}
	return makeObject(ah, &ah.handle, &ah.p, "AH", "ibv_create_ah", attr.String(),
		func() (ProviderAH, error) { return pd.p.CreateAH(attr) }, &pd.handle)
}

// CreateAHContext is [PD.CreateAH] with a context: it returns when ctx ends. The error then
// matches ctx.Err() and context.Cause(ctx) with errors.Is. The kernel continues the call. Until the
// kernel is done, the domain's Close returns EBUSY. A handle made after ctx has ended is closed.
func (pd *PD) CreateAHContext(ctx context.Context, attr AHAttr) (*AH, error) {
	const op = "ibv_create_ah"
	if ctx.Err() != nil {
		return nil, fail(op, pd.device, attr.String(), ctxwatch.Err(ctx))
	}
	ah, err := within(ctx, func() (*AH, error) { return pd.CreateAH(attr) },
		func(late *AH) { _ = late.Close() }) // if Close fails, the leak is reported
	if _, ok := err.(*Error); err == nil || ok {
		return ah, err
	}
	return nil, fail(op, pd.device, attr.String(), err)
}

// Close destroys the handle. Sends posted with it must have completed. Closing again does
// nothing.
//
// Implements: int ibv_destroy_ah(struct ibv_ah *ah)
func (ah *AH) Close() error {
	if ah == nil || ah.p == nil {
		return nil
	}
	return ah.close("ibv_destroy_ah", ah.p.Close)
}
