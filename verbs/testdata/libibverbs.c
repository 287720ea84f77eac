/*
 * A libibverbs for tests of the C wall: one device, fake0, whose objects do next to
 * nothing. Each destroy is refused once with EBUSY. A poll finds nothing, and reports that
 * the CQ has overrun. Arming a CQ brings an event. Sends go the way of rdma_rxe's library: they are queued
 * before the doorbell, which the kernel refuses below RTS.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

static struct ibv_device device = { .name = "fake0", .dev_name = "fake0", .dev_path = "/", .ibdev_path = "/" };
static int async_out;
static int unacked;         /* asynchronous events */
static struct ibv_cq *spare; /* the next CQ's memory, as malloc gives back what was freed last */

/* A destroy is refused unless it was refused last. */
static int refuses(void *object)
{
	static void *last;

	if (object == last) {
		last = NULL;
		return 0;
	}
	last = object;
	return EBUSY;
}

static int destroyed(void *object)
{
	int ret = refuses(object);

	if (!ret)
		free(object);
	return ret;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	*n = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
__be64 ibv_get_device_guid(struct ibv_device *d) { return 0; }
int ibv_get_device_index(struct ibv_device *d) { return 0; }

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	for (; wr; wr = wr->next)
		qp->handle++; /* how many are queued */
	if (qp->state >= IBV_QPS_RTS)
		return 0;
	*bad = NULL;
	return EINVAL;
}

static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW }, *bad;

	return post_send(qp, &wr, &bad);
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return write(cq->channel->refcnt, &cq, sizeof(cq)) == sizeof(cq) ? 0 : errno;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct ibv_async_event overrun = { .element.cq = cq, .event_type = IBV_EVENT_CQ_ERR };

	return write(async_out, &overrun, sizeof(overrun)) == sizeof(overrun) ? 0 : -1;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw) { return destroyed(mw); }

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *c = calloc(1, sizeof(*c));
	int fds[2];

	if (pipe(fds))
		return NULL;
	c->device = d;
	c->async_fd = fds[0];
	async_out = fds[1];
	c->num_comp_vectors = 1;
	c->ops.post_send = post_send;
	c->ops.req_notify_cq = req_notify_cq;
	c->ops.poll_cq = poll_cq;
	c->ops.alloc_mw = alloc_mw;
	c->ops.bind_mw = bind_mw;
	c->ops.dealloc_mw = dealloc_mw;
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	if (refuses(c))
		return EBUSY;
	close(c->async_fd);
	close(async_out);
	free(c);
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	return 0;
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	if (read(c->async_fd, event, sizeof(*event)) != sizeof(*event))
		return -1;
	unacked++;
	return 0;
}

/* The caller is kept for a while: time enough for another thread to destroy the CQ, and to
 * make one in its place. */
void ibv_ack_async_event(struct ibv_async_event *event)
{
	__atomic_sub_fetch(&unacked, 1, __ATOMIC_SEQ_CST);
	usleep(500 * 1000);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = c;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) { return destroyed(pd); }

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, 0, access);
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr) { return destroyed(mr); }

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	ah->context = pd->context;
	ah->pd = pd;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah) { return destroyed(ah); }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *ch = calloc(1, sizeof(*ch));
	int fds[2];

	if (pipe(fds))
		return NULL;
	ch->context = c;
	ch->fd = fds[0];
	ch->refcnt = fds[1]; /* the other end */
	return ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	if (refuses(ch))
		return EBUSY;
	close(ch->fd);
	close(ch->refcnt);
	free(ch);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context)
{
	return read(ch->fd, cq, sizeof(*cq)) == sizeof(*cq) ? 0 : -1;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n) {}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context, struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq = spare ? spare : calloc(1, sizeof(*cq));

	spare = NULL;
	cq->context = c;
	cq->channel = ch;
	cq->cqe = cqe;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (refuses(cq))
		return EBUSY;
	while (__atomic_load_n(&unacked, __ATOMIC_SEQ_CST))
		usleep(1000);
	spare = cq;
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = calloc(1, sizeof(*srq));

	srq->context = pd->context;
	return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq) { return destroyed(srq); }

/* All sizes that are asked for are granted. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->pd = pd;
	qp->qp_type = attr->qp_type;
	qp->qp_num = 0x11;
	return qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = qp->state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp) { return destroyed(qp); }
