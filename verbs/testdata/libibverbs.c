/*
 * A libibverbs with two devices whose objects do next to nothing. Both grant all sizes that are asked for.
 *
 * fake0, for tests of the C wall: each destroy is refused once with EBUSY. A poll finds nothing, and reports that
 * the CQ has overrun. Arming a CQ brings an event. Sends go the way of rdma_rxe's library: they are queued
 * before the doorbell, which the kernel refuses below RTS.
 *
 * instant0: what is posted has completed, and each poll finds one completion. A program that runs on it executes only
 * its own instructions, so they can be counted: test/versus/instructions.sh.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct queue {
	struct ibv_cq cq;
	long sent, posted; /* on instant0: signaled sends, and receives, that no poll has returned yet */
	uint64_t id;       /* the last one's */
};

#define DEVICE(n) { .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = n, .dev_name = n, .dev_path = "/", .ibdev_path = "/" }
static struct ibv_device fake = DEVICE("fake0"), instant = DEVICE("instant0");
static int async_out;
static int unacked;         /* asynchronous events */
static struct ibv_cq *spare; /* the next CQ's memory, as malloc gives back what was freed last */

/* On fake0 a destroy is refused unless it was refused last. */
static int refuses(struct ibv_context *c, void *object)
{
	static void *last;

	if (c->device == &instant || object == last) {
		last = NULL;
		return 0;
	}
	last = object;
	return EBUSY;
}

static int destroyed(struct ibv_context *c, void *object)
{
	int ret = refuses(c, object);

	if (!ret)
		free(object);
	return ret;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(3, sizeof(*list));

	list[0] = &fake;
	list[1] = &instant;
	if (n)
		*n = 2;
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

static int instant_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct queue *q = (struct queue *)qp->send_cq;

	for (; wr; wr = wr->next) {
		q->id = wr->wr_id;
		if (wr->send_flags & IBV_SEND_SIGNALED)
			q->sent++;
	}
	return 0;
}

static int instant_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct queue *q = (struct queue *)qp->recv_cq;

	for (; wr; wr = wr->next) {
		q->id = wr->wr_id;
		q->posted++;
	}
	return 0;
}

static int instant_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct queue *q = (struct queue *)cq;

	if (q->sent > 0) {
		q->sent--;
		wc->opcode = IBV_WC_SEND;
	} else if (q->posted > 0) {
		q->posted--;
		wc->opcode = IBV_WC_RECV;
	} else {
		return 0;
	}
	wc->wr_id = q->id;
	wc->status = IBV_WC_SUCCESS;
	wc->wc_flags = 0;
	return 1;
}

static int instant_req_notify_cq(struct ibv_cq *cq, int solicited_only) { return 0; }

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct ibv_mw *mw = calloc(1, sizeof(*mw));

	mw->context = pd->context;
	mw->pd = pd;
	mw->type = type;
	return mw;
}

static int dealloc_mw(struct ibv_mw *mw) { return destroyed(mw->context, mw); }

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
	if (d == &instant) {
		c->ops.post_send = instant_post_send;
		c->ops.post_recv = instant_post_recv;
		c->ops.poll_cq = instant_poll_cq;
		c->ops.req_notify_cq = instant_req_notify_cq;
	}
	return c;
}

int ibv_close_device(struct ibv_context *c)
{
	if (refuses(c, c))
		return EBUSY;
	close(c->async_fd);
	close(async_out);
	free(c);
	return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	memset(a, 0, sizeof(*a));
	a->max_mr_size = 1ull << 40;
	a->max_qp = a->max_cq = a->max_mr = a->max_pd = 1000;
	a->max_qp_wr = a->max_cqe = 1 << 15;
	a->max_sge = a->max_sge_rd = 32;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
	a->max_res_rd_atom = 1000;
	a->phys_port_cnt = 1;
	return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *to)
{
	struct ibv_port_attr *a = (struct ibv_port_attr *)to;

	a->state = IBV_PORT_ACTIVE;
	a->max_mtu = a->active_mtu = IBV_MTU_1024;
	a->gid_tbl_len = a->pkey_tbl_len = 1;
	a->max_msg_sz = 1u << 31;
	a->phys_state = 5; /* LinkUp */
	a->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static const union ibv_gid gid = { .raw = { [10] = 0xff, 0xff, 127, 0, 0, 1 } };

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *to)
{
	*to = gid;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *e, uint32_t flags, size_t size)
{
	*e = (struct ibv_gid_entry){ .gid = gid, .port_num = 1, .gid_type = IBV_GID_TYPE_ROCE_V2, .ndev_ifindex = 1 };
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *e, size_t n, uint32_t flags, size_t size)
{
	return n > 0 && !_ibv_query_gid_ex(c, 1, 0, e, 0, size);
}

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey)
{
	*pkey = htons(0xffff);
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

int ibv_dealloc_pd(struct ibv_pd *pd) { return destroyed(pd->context, pd); }

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = mr->rkey = 1;
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

int ibv_dereg_mr(struct ibv_mr *mr) { return destroyed(mr->context, mr); }

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = calloc(1, sizeof(*ah));

	ah->context = pd->context;
	ah->pd = pd;
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah) { return destroyed(ah->context, ah); }

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
	if (refuses(ch->context, ch))
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
	struct ibv_cq *cq = spare ? spare : malloc(sizeof(struct queue));

	spare = NULL;
	memset(cq, 0, sizeof(struct queue));
	cq->context = c;
	cq->channel = ch;
	cq->cqe = cqe;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	if (refuses(cq->context, cq))
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

int ibv_destroy_srq(struct ibv_srq *srq) { return destroyed(srq->context, srq); }

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->qp_type = attr->qp_type;
	qp->qp_num = 0x11;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return NULL; }

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

int ibv_destroy_qp(struct ibv_qp *qp) { return destroyed(qp->context, qp); }

#ifdef NO_QSORT
/* perftest sorts its samples at the end, which is no part of a message. */
void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *)) {}
#endif
