/*
 * Completion queues: creating them, and polling. The ring lies in memory that the core fills, so a
 * poll is a few instructions. A poll that finds nothing drives: it receives packets in the core.
 */
#include "shim.h"

/*
 * ring_init sets all of a ring but head and tail. The entries lie in memory of the domain, which
 * may be NULL.
 */
static bool ring_init(struct rv_ring *r, struct ibv_pd *pd, uint32_t depth, bool stamps, struct block *entries)
{
	uint32_t length = 1;
	while (length < depth)
		length *= 2;
	if (!pd_alloc(pd, entries, length * (sizeof *r->wcs + (stamps ? sizeof *r->stamps : 0)), RESOURCE_CQ))
		return false;
	r->length = length;
	r->depth = depth;
	r->wcs = entries->start;
	r->stamps = stamps ? (void *)(r->wcs + length) : NULL;
	return true;
}

static void set_entries(struct rv_ring *r, const struct rv_ring *from)
{
	r->length = from->length;
	r->depth = from->depth;
	r->wcs = from->wcs;
	r->stamps = from->stamps;
}

#define MAX_DEPTH (1 << 22) /* more than the device allows */

struct cq *cq_new(struct context *c, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector, uint64_t wc_flags,
		  struct ibv_pd *pd)
{
	if (vector < 0 || vector >= c->verbs.context.num_comp_vectors || cqe < 1 || cqe > MAX_DEPTH)
		return null(EINVAL);
	struct cq *cq = aligned_alloc(__alignof__(struct cq), sizeof *cq);
	if (cq)
		memset(cq, 0, sizeof *cq);
	const uint64_t stamped = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	if (!cq || !ring_init(&cq->ring, pd, cqe, wc_flags & stamped, &cq->entries))
		return undone(cq, ENOMEM);
	struct rv_channel *shared = channel ? &((struct channel *)channel)->shared : NULL;
	int error = CALL(c, rv_create_cq, c->handle, wc_flags, &cq->ring, shared, (uintptr_t)cq, &cq->handle);
	if (error) {
		pd_free(&cq->entries);
		free(cq);
		return null(error);
	}
	cq->context = c;
	cq->pd = pd;
	if (pd)
		pd_hold(pd);
	cq->lock = (pthread_mutex_t)PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	struct ibv_cq *v = (struct ibv_cq *)&cq->verbs;
	v->context = &c->verbs.context;
	v->channel = channel;
	v->cq_context = cq_context;
	v->handle = cq->handle;
	v->cqe = cqe;
	pthread_mutex_init(&v->mutex, NULL);
	pthread_cond_init(&v->cond, NULL);
	if (channel) {
		hold(channel_users(channel));
		channel_join((struct channel *)channel, cq);
	}
	return cq;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	UNLESS_OURS(context, ibv_create_cq, context, cqe, cq_context, channel, vector);
	struct cq *cq = cq_new(context_of(context), cqe, cq_context, channel, vector, 0, NULL);
	return cq ? (struct ibv_cq *)&cq->verbs : NULL;
}

int ibv_resize_cq(struct ibv_cq *v, int cqe)
{
	UNLESS_OURS(v->context, ibv_resize_cq, v, cqe);
	struct cq *cq = (struct cq *)v;
	if (lost(cq->context))
		return failed(EIO);
	if (cqe < 1 || cqe > MAX_DEPTH || !GENUINE(cq, v))
		return failed(EINVAL);
	struct block entries;
	struct rv_ring ring = {0};
	pthread_mutex_lock(&cq->lock);
	bool stamps = cq->ring.stamps;
	pthread_mutex_unlock(&cq->lock);
	if (!ring_init(&ring, cq->pd, cqe, stamps, &entries)) /* by the program's allocator, which may poll */
		return failed(ENOMEM);
	pthread_mutex_lock(&cq->lock);
	struct rv_ring before = cq->ring;
	set_entries(&cq->ring, &ring);
	int error = CALL(cq->context, rv_resize_cq, cq->handle, &cq->ring);
	if (error) {
		set_entries(&cq->ring, &before);
	} else {
		struct block unused = cq->entries;
		cq->entries = entries;
		entries = unused;
		v->cqe = cqe;
	}
	pthread_mutex_unlock(&cq->lock);
	pd_free(&entries);
	return error;
}

int modify_cq(struct ibv_cq *v, struct ibv_modify_cq_attr *attr)
{
	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return failed(EINVAL);
	return CALL_OF(cq, v, EINVAL, rv_moderate_cq, attr->moderate.cq_count, attr->moderate.cq_period);
}

int ibv_destroy_cq(struct ibv_cq *v)
{
	UNLESS_OURS(v->context, ibv_destroy_cq, v);
	struct cq *cq = (struct cq *)v;
	struct channel *channel = (struct channel *)v->channel;
	if (lost(cq->context))
		return failed(EIO);
	if (!GENUINE(cq, v))
		return failed(ENOENT);
	if (channel)
		channel_leave(channel, cq);
	int error = CALL(cq->context, rv_destroy_cq, cq->handle);
	if (error) {
		if (channel)
			channel_join(channel, cq);
		return error;
	}
	if (channel) {
		channel_forget(channel, cq);
		release(channel_users(v->channel));
	}
	async_forget(cq->context, cq);
	await_acks(&v->mutex, &v->cond, &v->comp_events_completed, &cq->reported);
	await_acks(&v->mutex, &v->cond, &v->async_events_completed, &cq->async_reported);
	pd_free(&cq->entries);
	if (cq->pd)
		pd_release(cq->pd);
	pthread_mutex_destroy(&cq->lock);
	free(cq);
	return 0;
}

static bool empty(struct rv_ring *r)
{
	return __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) == __atomic_load_n(&r->head, __ATOMIC_RELAXED);
}

/* The lock is not held while a thread drives, so threads that share a CQ do not wait for it. */
bool cq_ready(struct cq *cq)
{
	if (empty(&cq->ring)) {
		LEAVE_ERRNO;
		enum rv_traffic traffic = core_of(cq->context)->rv_drive(cq->handle);
		if (empty(&cq->ring)) {
			found_nothing(cq->context, traffic);
			return false;
		}
	}
	idle.polls = 0;
	return true;
}

int poll_cq(struct ibv_cq *v, int n, struct ibv_wc *wcs)
{
	struct cq *cq = (struct cq *)v;
	if (lost(cq->context))
		return -failed(EIO);
	if (!cq_ready(cq))
		return 0;
	pthread_mutex_lock(&cq->lock);
	struct rv_ring *r = &cq->ring;
	uint32_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE), head = r->head;
	int taken = 0;
	for (; taken < n && head != tail; head++)
		wcs[taken++] = r->wcs[head & (r->length - 1)];
	__atomic_store_n(&r->head, head, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&cq->lock);
	return taken;
}

bool cq_next(struct cq *cq)
{
	struct rv_ring *r = &cq->ring;
	uint32_t head = r->head;
	if (empty(r))
		return false;
	cq->wc = r->wcs[head & (r->length - 1)];
	if (r->stamps)
		cq->stamp = r->stamps[head & (r->length - 1)];
	__atomic_store_n(&r->head, head + 1, __ATOMIC_RELEASE);
	return true;
}

/* The core may add completions meanwhile, so the others move towards the tail. */
void cq_forget(struct cq *cq, uint32_t qpn)
{
	pthread_mutex_lock(&cq->lock);
	struct rv_ring *r = &cq->ring;
	uint32_t mask = r->length - 1, head = r->head, to = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
	for (uint32_t from = to; from != head;) {
		if (r->wcs[--from & mask].qp_num == qpn || --to == from)
			continue;
		r->wcs[to & mask] = r->wcs[from & mask];
		if (r->stamps)
			r->stamps[to & mask] = r->stamps[from & mask];
	}
	__atomic_store_n(&r->head, to, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&cq->lock);
}

int arm_cq(struct ibv_cq *v, int solicited_only)
{
	return CALL_OF(cq, v, EINVAL, rv_arm_cq, solicited_only);
}
