/*
 * A libibverbs with one device, instant0, which does nothing: what is posted has completed,
 * and each poll finds one completion. A program that runs on it executes only its own
 * instructions, so they can be counted: ../instructions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>

#undef ibv_query_port
#undef ibv_reg_mr

struct queue {
	struct ibv_cq cq;
	long sent, posted; /* signaled sends, and receives, that no poll has returned yet */
	uint64_t id;       /* the last one's */
};

static struct ibv_device device = { .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB,
	.name = "instant0", .dev_name = "uverbs0", .dev_path = "/", .ibdev_path = "/" };

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct queue *q = (struct queue *)qp->send_cq;

	for (; wr; wr = wr->next) {
		q->id = wr->wr_id;
		if (wr->send_flags & IBV_SEND_SIGNALED)
			q->sent++;
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct queue *q = (struct queue *)qp->recv_cq;

	for (; wr; wr = wr->next) {
		q->id = wr->wr_id;
		q->posted++;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
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

static int req_notify_cq(struct ibv_cq *cq, int solicited_only) { return 0; }

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	qp->context = pd->context;
	qp->send_cq = a->send_cq;
	qp->recv_cq = a->recv_cq;
	qp->qp_type = a->qp_type;
	qp->qp_num = 0x11;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return NULL; }
int ibv_destroy_qp(struct ibv_qp *qp) { return 0; }

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

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	list[0] = &device;
	if (n)
		*n = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
__be64 ibv_get_device_guid(struct ibv_device *d) { return 0; }
int ibv_get_device_index(struct ibv_device *d) { return 0; }

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct ibv_context *c = calloc(1, sizeof(*c));
	int fds[2];

	if (pipe(fds))
		return NULL;
	c->device = d;
	c->async_fd = fds[0]; /* the other end stays open */
	c->num_comp_vectors = 1;
	c->ops.post_send = post_send;
	c->ops.post_recv = post_recv;
	c->ops.poll_cq = poll_cq;
	c->ops.req_notify_cq = req_notify_cq;
	return c;
}

int ibv_close_device(struct ibv_context *c) { return 0; }

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event)
{
	errno = EAGAIN;
	return -1;
}

int ibv_get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **context) { return ibv_get_async_event(ch->context, NULL); }

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

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	pd->context = c;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd) { return 0; }

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

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) { return ibv_reg_mr_iova2(pd, addr, length, 0, access); }
int ibv_dereg_mr(struct ibv_mr *mr) { return 0; }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *ch = calloc(1, sizeof(*ch));
	int fds[2];

	if (pipe(fds))
		return NULL;
	ch->context = c;
	ch->fd = fds[0];
	return ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch) { return 0; }

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *context, struct ibv_comp_channel *ch, int vector)
{
	struct queue *q = calloc(1, sizeof(*q));

	q->cq.context = c;
	q->cq.channel = ch;
	q->cq.cqe = cqe;
	return &q->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq) { return 0; }

/* perftest sorts its samples at the end, which is no part of a message. */
void qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *)) {}
