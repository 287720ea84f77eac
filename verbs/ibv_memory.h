/*
 * What Go calls of libibverbs for memory: regions and windows. See ibv_shim.h for
 * how these functions answer. Memory of Go's is a uint8_t * here: given a void *, cgo
 * would look for pointers in the whole object that the memory is a part of.
 */

#ifndef RAWVERBS_IBV_MEMORY_H
#define RAWVERBS_IBV_MEMORY_H

#include "ibv_shim.h"

/* rv_reg_mr registers memory under the addresses from iova on. Only what needs a
 * newer libibverbs calls for it, which the macros see to. */
static inline int rv_reg_mr(struct ibv_pd *pd, uint8_t *addr, size_t length, uint64_t iova, int access,
			    struct ibv_mr **out)
{
	errno = 0;
	if (iova == (uintptr_t)addr)
		*out = ibv_reg_mr(pd, addr, length, access);
	else
		*out = ibv_reg_mr_iova(pd, addr, length, iova, access);
	return rv_made(*out);
}

RV_MADE(reg_dmabuf_mr,
	(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access, struct ibv_mr **out),
	(pd, offset, length, iova, fd, access))
RV_MADE(alloc_null_mr, (struct ibv_pd *pd, struct ibv_mr **out), (pd))

/* rv_rereg_mr gives errno, and in broken whether the region is lost. That the old
 * memory could not be given to forks again is no failure. */
static inline int rv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, uint8_t *addr, size_t length,
			      int access, int *broken)
{
	int ret;

	errno = 0;
	ret = ibv_rereg_mr(mr, flags, pd, addr, length, access);
	*broken = (ret == IBV_REREG_MR_ERR_CMD || ret == IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW) && errno != EOPNOTSUPP;
	if (ret == 0 || ret == IBV_REREG_MR_ERR_DO_FORK_OLD)
		return 0;
	return errno ? errno : EIO;
}

RV_ERRNO(dereg_mr, (struct ibv_mr *mr), (mr))
RV_ERRNO(advise_mr, (struct ibv_pd *pd, int advice, uint32_t flags, struct ibv_sge *sges, uint32_t n), (pd, advice, flags, sges, n))
RV_MADE(alloc_mw, (struct ibv_pd *pd, int type, struct ibv_mw **out), (pd, type))
RV_ERRNO(dealloc_mw, (struct ibv_mw *mw), (mw))

static inline int rv_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, uint64_t id, unsigned int flags, struct ibv_mr *mr,
			     uint64_t addr, uint64_t length, unsigned int access)
{
	struct ibv_mw_bind bind = {
		.wr_id = id,
		.send_flags = flags,
		.bind_info = { .mr = mr, .addr = addr, .length = length, .mw_access_flags = access },
	};

	return rv_errno(ibv_bind_mw(qp, mw, &bind));
}

#endif
