/*
 * Importing the objects of another context of the process (ibv_import_device). The kernel also
 * shares objects between processes; the software device is in one.
 */
#include "shim.h"

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	if (!ours(context))
		return REAL(ibv_import_pd)(context, handle);
	struct context *c = context_of(context);
	struct pd *pd = calloc(1, sizeof *pd);
	if (!pd)
		return NULL;
	int error = CALL(c, rv_import_pd, c->handle, handle);
	if (error) {
		free(pd);
		return null(error);
	}
	pd->verbs = (struct ibv_pd){.context = context, .handle = handle};
	return &pd->verbs;
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!ours(pd->context)) {
		REAL(ibv_unimport_pd)(pd);
		return;
	}
	struct context *c = context_of(pd->context);
	if (!lost(c))
		core_of(c)->rv_unimport_pd(pd->handle);
	free(pd);
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	if (!ours(pd->context))
		return REAL(ibv_import_mr)(pd, handle);
	struct context *c = context_of(pd->context);
	struct mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	struct ibv_mr *v = &mr->verbs;
	uint64_t length;
	int error = CALL(c, rv_import_mr, pd->handle, handle, &length, &v->lkey, &v->rkey);
	if (error) {
		free(mr);
		return null(error);
	}
	v->context = pd->context;
	v->pd = pd;
	v->length = length; /* the address stays NULL, as in libibverbs */
	v->handle = handle;
	pd_hold(pd);
	return v;
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!ours(mr->context)) {
		REAL(ibv_unimport_mr)(mr);
		return;
	}
	pd_release(mr->pd);
	free(mr);
}
