/*
 * Memory regions and windows.
 */
#include "shim.h"

struct ibv_mr *mr_made(struct rv_mr *mr, int error, struct ibv_pd *pd, void *addr, size_t length)
{
	if (error)
		return undone(mr, error);
	mr->context = context_of(pd->context);
	struct ibv_mr *v = &mr->verbs;
	v->context = pd->context;
	v->pd = pd;
	v->addr = addr;
	v->length = length;
	v->handle = mr->handle;
	pd_hold(pd);
	return v;
}

struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	struct rv_mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	int error = CALL_OF(pd, pd, EINVAL, rv_reg_mr, (uintptr_t)addr, length, iova, access, &mr->handle, &v->lkey, &v->rkey);
	return mr_made(mr, error, pd, addr, length);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	UNLESS_OURS(pd->context, ibv_reg_mr, pd, addr, length, access);
	return mr_new(pd, addr, length, access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	UNLESS_OURS(pd->context, ibv_reg_mr_iova, pd, addr, length, iova, access);
	return mr_new(pd, addr, length, iova, access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	UNLESS_OURS(pd->context, ibv_reg_mr_iova2, pd, addr, length, iova, access);
	return mr_new(pd, addr, length, access & IBV_ACCESS_ZERO_BASED ? 0 : iova, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	UNLESS_OURS(pd->context, ibv_reg_dmabuf_mr, pd, offset, length, iova, fd, access);
	struct rv_mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	int error = fd < 0 ? EBADF
			   : CALL_OF(pd, pd, EINVAL, rv_reg_dmabuf_mr, offset, length, iova, fd, access, &mr->handle, &v->lkey, &v->rkey);
	return mr_made(mr, error, pd, (void *)(uintptr_t)offset, length); /* the address is the offset, as libibverbs has it */
}

struct ibv_mr *alloc_null_mr(struct ibv_pd *pd)
{
	struct rv_mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	int error = CALL_OF(pd, pd, EINVAL, rv_alloc_null_mr, &mr->handle, &v->lkey);
	return mr_made(mr, error, pd, NULL, SIZE_MAX);
}

/* Returns 0 or enum ibv_rereg_mr_err_code. The keys stay the same. */
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	UNLESS_OURS(mr->context, ibv_rereg_mr, mr, flags, pd, addr, length, access);
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION, joins = flags & IBV_REREG_MR_CHANGE_PD;
	bool grants = flags & IBV_REREG_MR_CHANGE_ACCESS, whole = !((struct rv_mr *)mr)->users;
	if (!whole || !flags || flags & ~(IBV_REREG_MR_FLAGS_SUPPORTED) || (moves && (!addr || !length)) || (joins && !pd) ||
	    (access && !grants)) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	int error = joins && !GENUINE(pd, pd) ? EINVAL
					      : CALL_OF(rv_mr, mr, EINVAL, rv_rereg_mr, flags, joins ? pd->handle : 0, (uintptr_t)addr, length,
							access, &mr->lkey, &mr->rkey);
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
	UNLESS_OURS(v->context, ibv_dereg_mr, v);
	struct rv_mr *mr = (struct rv_mr *)v;
	int error = CALL_OF(rv_mr, v, ENOENT, rv_dereg_mr);
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
	return CALL_OF(pd, pd, EINVAL, rv_advise_mr, advice, flags, sgl, n);
}

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct rv_mw *mw = calloc(1, sizeof *mw);
	if (!mw)
		return NULL;
	struct ibv_mw *v = &mw->verbs;
	int error = CALL_OF(pd, pd, EINVAL, rv_alloc_mw, type, &mw->handle, &v->rkey);
	if (error)
		return undone(mw, error);
	mw->context = context_of(pd->context);
	v->context = pd->context;
	v->pd = pd;
	v->handle = mw->handle;
	v->type = type;
	pd_hold(pd);
	return v;
}

int bind_mw(struct ibv_qp *v, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct qp *qp = (struct qp *)v;
	return CALL(qp->context, rv_bind_mw, qp->handle, ((struct rv_mw *)mw)->handle, bind, &mw->rkey);
}

int dealloc_mw(struct ibv_mw *mw)
{
	int error = CALL_OF(rv_mw, mw, ENOENT, rv_dealloc_mw);
	if (error)
		return error;
	pd_release(mw->pd);
	free(mw);
	return 0;
}
