/*
 * Importing the objects of another context of the process (ibv_import_device). The kernel also
 * shares objects between processes; the software device is in one.
 */
#include "shim.h"

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	UNLESS_OURS(context, ibv_import_pd, context, handle);
	struct context *c = context_of(context);
	struct pd *pd = calloc(1, sizeof *pd);
	if (!pd)
		return NULL;
	int error = CALL(c, rv_import_pd, c->handle, handle);
	if (error)
		return undone(pd, error);
	*pd = (struct pd){.verbs = {.context = context, .handle = handle}, .handle = handle, .context = c, .imported = true};
	return &pd->verbs;
}

void ibv_unimport_pd(struct ibv_pd *v)
{
	UNLESS_OURS(v->context, ibv_unimport_pd, v);
	struct pd *pd = (struct pd *)v;
	if (!pd->imported)
		return; /* the program's mistake: ibv_dealloc_pd frees it */
	if (!lost(pd->context))
		core_of(pd->context)->rv_unimport_pd(pd->handle);
	free(pd);
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	UNLESS_OURS(pd->context, ibv_import_mr, pd, handle);
	struct rv_mr *mr = calloc(1, sizeof *mr);
	if (!mr)
		return NULL;
	uint64_t length = 0;
	int error = CALL_OF(pd, pd, EINVAL, rv_import_mr, handle, &length, &mr->verbs.lkey, &mr->verbs.rkey);
	mr->handle = handle;
	return mr_made(mr, error, pd, NULL, length); /* without an address, as libibverbs has it */
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	UNLESS_OURS(mr->context, ibv_unimport_mr, mr);
	pd_release(mr->pd);
	free(mr);
}
