// Null regions: memory that is not there.

package verbs

import "math"

// AllocNullMR makes a null region. It has no memory, and every address lies in it. Bytes that a work
// request reads from it are 0, and bytes that a work request writes to it are lost. So an SGE of a
// null region skips bytes of a message, or fills bytes with zeros. The peer cannot use the region.
// [MR.Bytes] returns nil, and [MR.SGE] takes every offset.
//
// errors.ErrUnsupported if the device has no null regions, as rdma_rxe. The domain cannot be closed
// before the region is.
//
// Implements: struct ibv_mr *ibv_alloc_null_mr(struct ibv_pd *pd)
func (pd *PD) AllocNullMR() (*MR, error) {
	mr := &MR{pd: pd, length: math.MaxInt, access: AccessLocalWrite}
	return makeObject(mr, &mr.handle, &mr.p, "MR", "ibv_alloc_null_mr", "", func() (ProviderMR, error) {
		return optionally(pd.p, ProviderNullMR.AllocNullMR)
	}, &pd.handle)
}
