/*
 * Protection domains, and what only the library has: thread domains and parent domains. A parent
 * domain is a protection domain with allocators and a thread domain. The core sees the protection
 * domain.
 */
#include "shim.h"

#include <stdio.h>

/* The core explains the other refusals (rawverbs run --explain). */
int in_use(const char *call, const char *object, unsigned users)
{
	if (getenv("RAWVERBS_EXPLAIN"))
		fprintf(stderr, "rawverbs: %s: the %s is used by %u other object%s: EBUSY (16, device or resource busy); try: destroy those first\n",
			call, object, users, users == 1 ? "" : "s");
	return failed(EBUSY);
}

struct td {
	struct ibv_td verbs;
	unsigned users; /* parent domains */
};

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	UNLESS_OURS(context, ibv_alloc_pd, context);
	struct context *c = context_of(context);
	struct pd *pd = calloc(1, sizeof *pd);
	if (!pd)
		return NULL;
	int error = CALL(c, rv_alloc_pd, c->handle, &pd->handle);
	if (error)
		return undone(pd, error);
	pd->context = c;
	pd->verbs = (struct ibv_pd){.context = context, .handle = pd->handle};
	return &pd->verbs;
}

int ibv_dealloc_pd(struct ibv_pd *v)
{
	UNLESS_OURS(v->context, ibv_dealloc_pd, v);
	struct context *c = context_of(v->context);
	struct pd *pd = (struct pd *)v;
	if (lost(c))
		return failed(EIO);
	if (!GENUINE(pd, v))
		return failed(ENOENT);
	unsigned users = held(&pd->users);
	if (users)
		return in_use("ibv_dealloc_pd", "PD", users);
	if (pd->protection) {
		pd_release(&pd->protection->verbs);
		if (pd->td)
			release(&pd->td->users);
	} else {
		int error = CALL(c, rv_dealloc_pd, pd->handle);
		if (error)
			return error;
	}
	free(pd);
	return 0;
}

void pd_hold(struct ibv_pd *pd) { hold(&((struct pd *)pd)->users); }
void pd_release(struct ibv_pd *pd) { release(&((struct pd *)pd)->users); }

struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	if (lost(context_of(context)))
		return null(EIO);
	const uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	bool allocators = attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
	struct pd *protection = (struct pd *)attr->pd;
	if (attr->comp_mask & ~known)
		return null(EOPNOTSUPP);
	if (!protection || protection->protection || attr->pd->context != context || !GENUINE(pd, attr->pd) ||
	    (attr->td && attr->td->context != context) || (allocators && (!attr->alloc || !attr->free)))
		return null(EINVAL);
	struct pd *pd = calloc(1, sizeof *pd);
	if (!pd)
		return NULL;
	*pd = (struct pd){.verbs = *attr->pd, .handle = protection->handle, .context = protection->context, .protection = protection,
			  .td = (struct td *)attr->td};
	if (allocators) {
		pd->alloc = attr->alloc;
		pd->free = attr->free;
	}
	if (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
		pd->pd_context = attr->pd_context;
	pd_hold(attr->pd);
	if (pd->td)
		hold(&pd->td->users);
	return &pd->verbs;
}

/*
 * Memory that an object of the domain needs. The program's allocator may leave the choice to the
 * library.
 */
bool pd_alloc(struct ibv_pd *v, struct block *block, size_t size, enum resource resource)
{
	enum { ALIGNMENT = 64 };
	struct pd *pd = (struct pd *)v;
	*block = (struct block){.resource = resource};
	if (pd && pd->alloc) {
		void *start = pd->alloc(v, pd->pd_context, size, ALIGNMENT, resource);
		if (!start)
			return false;
		if (start != IBV_ALLOCATOR_USE_DEFAULT) {
			*block = (struct block){.start = start, .of = pd, .resource = resource};
			memset(start, 0, size);
			return true;
		}
	}
	if (posix_memalign(&block->start, ALIGNMENT, size ? size : 1))
		return false;
	memset(block->start, 0, size);
	return true;
}

void pd_free(struct block *block)
{
	if (block->of)
		block->of->free(&block->of->verbs, block->of->pd_context, block->start, block->resource);
	else
		free(block->start);
	block->start = NULL;
}

/* A thread domain promises that one thread at a time uses its objects. Their locks are cheap then. */
struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	if (lost(context_of(context)))
		return null(EIO);
	if (attr->comp_mask)
		return null(EINVAL);
	struct td *td = calloc(1, sizeof *td);
	if (!td)
		return NULL;
	td->verbs.context = context;
	return &td->verbs;
}

int dealloc_td(struct ibv_td *v)
{
	struct td *td = (struct td *)v;
	if (lost(context_of(v->context)))
		return failed(EIO);
	unsigned users = held(&td->users);
	if (users)
		return in_use("ibv_dealloc_td", "thread domain", users);
	free(td);
	return 0;
}
