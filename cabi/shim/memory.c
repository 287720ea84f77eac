/*
 * Memory regions and windows.
 */
#include "shim.h"

/* made completes a region that the core has made, or returns its error. It owns mr. */
static struct ibv_mr *made(struct mr *mr, int error, struct ibv_pd *pd, void *addr, size_t length)
{
	if (error) {
		free(mr);
		return null(error);
	}
	struct ibv_mr *v = &mr->verbs;
	v->context = pd->context;
	v->pd = pd;
	v->addr = addr;
	v->length = length;
	pd_hold(pd);
	return v;
}

struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	struct context *c = context_of(pd->context);
	struct mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	int error = CALL(c, rv_reg_mr, pd->handle, (uintptr_t)addr, length, iova, access, &v->handle, &v->lkey, &v->rkey);
	return made(mr, error, pd, addr, length);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!ours(pd->context))
		return REAL(ibv_reg_mr)(pd, addr, length, access);
	return mr_new(pd, addr, length, access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	if (!ours(pd->context))
		return REAL(ibv_reg_mr_iova)(pd, addr, length, iova, access);
	return mr_new(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	if (!ours(pd->context))
		return REAL(ibv_reg_mr_iova2)(pd, addr, length, iova, access);
	return mr_new(pd, addr, length, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	if (!ours(pd->context))
		return REAL(ibv_reg_dmabuf_mr)(pd, offset, length, iova, fd, access);
	struct context *c = context_of(pd->context);
	struct mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	int error = fd < 0 ? EBADF
			   : CALL(c, rv_reg_dmabuf_mr, pd->handle, offset, length, iova, fd, access, &v->handle, &v->lkey, &v->rkey);
	return made(mr, error, pd, (void *)(uintptr_t)offset, length); /* the address is the offset, as libibverbs has it */
}

struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct context *c = context_of(pd->context);
	struct mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	int error = CALL(c, rv_alloc_null_mr, pd->handle, &v->handle, &v->lkey);
	return made(mr, error, pd, NULL, SIZE_MAX);
}

/* Returns 0 or enum ibv_rereg_mr_err_code. The keys stay the same. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	if (!ours(mr->context))
		return REAL(ibv_rereg_mr)(mr, flags, pd, addr, length, access);
	struct context *c = context_of(mr->context);
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION, joins = flags & IBV_REREG_MR_CHANGE_PD;
	bool grants = flags & IBV_REREG_MR_CHANGE_ACCESS, whole = !((struct mr *)mr)->users;
	if (!whole || !flags || flags & ~(IBV_REREG_MR_FLAGS_SUPPORTED) || (moves && (!addr || !length)) || (joins && !pd) ||
	    (access && !grants)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	int error = CALL(c, rv_rereg_mr, mr->handle, flags, joins ? pd->handle : 0, (uintptr_t)addr, length, access, &mr->lkey,
			 &mr->rkey);
	if (error) {
		errno = error;
		return IBV_REREG_MR_ERR_CMD;
	}
	if (moves) {
		mr->addr = addr;
		mr->length = length;
	}
	if (joins) {
		pd_hold(pd);
		pd_release(mr->pd);
		mr->pd = pd;
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *v)
{
	if (!ours(v->context))
		return REAL(ibv_dereg_mr)(v);
	struct context *c = context_of(v->context);
	struct mr *mr = (struct mr *)v;
	int error = CALL(c, rv_dereg_mr, v->handle);
	if (error)
		return error;
	if (mr->users)
		release(mr->users);
	pd_release(v->pd);
	free(mr);
	return 0;
}

int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sgl, uint32_t n)
{
	struct context *c = context_of(pd->context);
	return CALL(c, rv_advise_mr, pd->handle, advice, flags, sgl, n);
}

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct context *c = context_of(pd->context);
	struct ibv_mw *mw = calloc(1, sizeof *mw);
	if (!mw)
		return NULL;
	int error = CALL(c, rv_alloc_mw, pd->handle, type, &mw->handle, &mw->rkey);
	if (error) {
		free(mw);
		return null(error);
	}
	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	pd_hold(pd);
	return mw;
}

int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct context *c = context_of(qp->context);
	return CALL(c, rv_bind_mw, ((struct qp *)qp)->handle, mw->handle, bind, &mw->rkey);
}

int dealloc_mw(struct ibv_mw *mw)
{
	struct context *c = context_of(mw->context);
	int error = CALL(c, rv_dealloc_mw, mw->handle);
	if (error)
		return error;
	pd_release(mw->pd);
	free(mw);
	return 0;
}
