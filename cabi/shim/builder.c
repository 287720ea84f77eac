/*
 * ibv_wr_*: requests are collected from ibv_wr_start on and posted by ibv_wr_complete.
 */
#include "shim.h"

struct builder {
	pthread_mutex_t lock; /* held from start to complete or abort */
	uint32_t count, max, max_sge, max_inline;
	int error; /* the first error since start */
	struct block block; /* holds the following three */
	struct ibv_send_wr *wrs; /* max */
	struct ibv_sge *sges; /* max_sge for each request */
	uint8_t *bytes; /* max_inline for each request */
};

static struct builder *builder_of(struct ibv_qp_ex *v) { return ((struct qp *)v)->builder; }

static void start(struct ibv_qp_ex *v)
{
	struct builder *b = builder_of(v);
	if (lost(((struct qp *)v)->context))
		return; /* another thread of the parent may hold the lock */
	pthread_mutex_lock(&b->lock);
	b->count = 0;
	b->error = 0;
}

/* add begins a request. After an error it returns a request that will not be posted. */
static struct ibv_send_wr *add(struct ibv_qp_ex *v, enum ibv_wr_opcode op)
{
	struct builder *b = builder_of(v);
	if (b->count == b->max) {
		b->error = ENOMEM;
		b->count--;
	}
	struct ibv_send_wr *wr = &b->wrs[b->count];
	*wr = (struct ibv_send_wr){.wr_id = v->wr_id, .opcode = op, .send_flags = v->wr_flags,
				   .sg_list = &b->sges[(size_t)b->count * b->max_sge]};
	if (b->count)
		wr[-1].next = wr;
	b->count++;
	return wr;
}

/* last returns the request that a set function completes. */
static struct ibv_send_wr *last(struct builder *b)
{
	if (!b->count) {
		b->error = EINVAL;
		b->wrs[0].sg_list = b->sges;
		return &b->wrs[0];
	}
	return &b->wrs[b->count - 1];
}

static void send(struct ibv_qp_ex *v) { add(v, IBV_WR_SEND); }
static void send_imm(struct ibv_qp_ex *v, __be32 imm) { add(v, IBV_WR_SEND_WITH_IMM)->imm_data = imm; }
static void send_inv(struct ibv_qp_ex *v, uint32_t rkey) { add(v, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey; }
static void local_inv(struct ibv_qp_ex *v, uint32_t rkey) { add(v, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey; }

static struct ibv_send_wr *add_rdma(struct ibv_qp_ex *v, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = add(v, op);
	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static void rdma_read(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr) { add_rdma(v, IBV_WR_RDMA_READ, rkey, addr); }
static void rdma_write(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr) { add_rdma(v, IBV_WR_RDMA_WRITE, rkey, addr); }
static void rdma_write_imm(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr, __be32 imm)
{
	add_rdma(v, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void add_atomic(struct ibv_qp_ex *v, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = add(v, op);
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void cmp_swp(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	add_atomic(v, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void fetch_add(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr, uint64_t value)
{
	add_atomic(v, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, value, 0);
}

static void bind(struct ibv_qp_ex *v, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = add(v, IBV_WR_BIND_MW);
	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void set_inline_data(struct ibv_qp_ex *v, void *addr, size_t length);

static void atomic_write(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr, const void *word)
{
	add_rdma(v, IBV_WR_ATOMIC_WRITE, rkey, addr);
	set_inline_data(v, (void *)word, ATOMIC_LENGTH);
}

/* struct ibv_send_wr has no fields for a FLUSH. The core finds the length and its kinds in those of an atomic. */
static void flush(struct ibv_qp_ex *v, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level)
{
	add_atomic(v, (enum ibv_wr_opcode)RV_WR_FLUSH, rkey, addr, length, type | level << 8);
	if (length > UINT32_MAX)
		builder_of(v)->error = EINVAL;
}

/* What the device does not have makes ibv_wr_complete fail. */
static void send_tso(struct ibv_qp_ex *v, void *header, uint16_t length, uint16_t mss)
{
	(void)header, (void)length, (void)mss;
	add(v, IBV_WR_TSO);
	builder_of(v)->error = EOPNOTSUPP;
}

static void set_xrc_srqn(struct ibv_qp_ex *v, uint32_t number)
{
	(void)number;
	builder_of(v)->error = EOPNOTSUPP;
}

static void set_ud_addr(struct ibv_qp_ex *v, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct ibv_send_wr *wr = last(builder_of(v));
	wr->wr.ud.ah = ah;
	wr->wr.ud.remote_qpn = qpn;
	wr->wr.ud.remote_qkey = qkey;
}

static void set_sge_list(struct ibv_qp_ex *v, size_t n, const struct ibv_sge *list)
{
	struct builder *b = builder_of(v);
	struct ibv_send_wr *wr = last(b);
	if (n > b->max_sge) {
		b->error = ENOMEM;
		return;
	}
	memcpy(wr->sg_list, list, n * sizeof *list);
	wr->num_sge = n;
}

static void set_sge(struct ibv_qp_ex *v, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
	set_sge_list(v, length ? 1 : 0, &sge);
}

static void set_inline_data_list(struct ibv_qp_ex *v, size_t n, const struct ibv_data_buf *list)
{
	struct builder *b = builder_of(v);
	struct ibv_send_wr *wr = last(b);
	uint8_t *bytes = b->bytes + (size_t)(wr - b->wrs) * b->max_inline;
	size_t length = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > b->max_inline - length) {
			b->error = ENOMEM;
			return;
		}
		memcpy(bytes + length, list[i].addr, list[i].length);
		length += list[i].length;
	}
	wr->send_flags |= IBV_SEND_INLINE;
	wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)bytes, .length = length};
	wr->num_sge = length ? 1 : 0;
}

static void set_inline_data(struct ibv_qp_ex *v, void *addr, size_t length)
{
	struct ibv_data_buf buf = {.addr = addr, .length = length};
	set_inline_data_list(v, 1, &buf);
}

static int complete(struct ibv_qp_ex *v)
{
	struct qp *qp = (struct qp *)v;
	struct builder *b = qp->builder;
	struct ibv_send_wr *bad;
	if (lost(qp->context))
		return failed(EIO);
	int error = b->error ? failed(b->error) : 0;
	if (!error && b->count)
		error = CALL(qp->context, rv_post_send, qp->handle, b->wrs, &bad);
	pthread_mutex_unlock(&b->lock);
	return error;
}

static void discard(struct ibv_qp_ex *v)
{
	if (!lost(((struct qp *)v)->context))
		pthread_mutex_unlock(&builder_of(v)->lock);
}

bool builder_can(enum ibv_qp_type type, uint64_t operations)
{
	const uint64_t with_flush = 1 << 11; /* IBV_QP_EX_WITH_FLUSH, which old headers lack */
	const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW |
			    IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV;
	const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_WRITE | with_flush;
	return !(operations & ~(type == IBV_QPT_UD ? ud : type == IBV_QPT_UC ? uc : rc));
}

int builder_init(struct qp *qp, const struct ibv_qp_cap *cap)
{
	struct builder *b = qp->builder = calloc(1, sizeof *b);
	if (!b)
		return ENOMEM;
	b->max = cap->max_send_wr ? cap->max_send_wr : 1;
	b->max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
	b->max_inline = cap->max_inline_data;
	size_t each = sizeof *b->wrs + b->max_sge * sizeof *b->sges + b->max_inline;
	if (!pd_alloc(qp->verbs.qp_base.pd, &b->block, b->max * each, RESOURCE_QP)) {
		free(b);
		qp->builder = NULL;
		return ENOMEM;
	}
	b->wrs = b->block.start;
	b->sges = (struct ibv_sge *)(b->wrs + b->max);
	b->bytes = (uint8_t *)(b->sges + (size_t)b->max * b->max_sge);
	pthread_mutex_init(&b->lock, NULL);
	struct ibv_qp_ex *v = &qp->verbs;
	v->wr_start = start;
	v->wr_complete = complete;
	v->wr_abort = discard;
	v->wr_send = send;
	v->wr_send_imm = send_imm;
	v->wr_send_inv = send_inv;
	v->wr_local_inv = local_inv;
	v->wr_rdma_read = rdma_read;
	v->wr_rdma_write = rdma_write;
	v->wr_rdma_write_imm = rdma_write_imm;
	v->wr_atomic_cmp_swp = cmp_swp;
	v->wr_atomic_fetch_add = fetch_add;
	v->wr_bind_mw = bind;
	v->wr_atomic_write = atomic_write;
	memcpy(qp->with_flush + WR_FLUSH_AT, &(wr_flush *){flush}, sizeof(wr_flush *));
	v->wr_send_tso = send_tso;
	v->wr_set_xrc_srqn = set_xrc_srqn;
	v->wr_set_ud_addr = set_ud_addr;
	v->wr_set_sge = set_sge;
	v->wr_set_sge_list = set_sge_list;
	v->wr_set_inline_data = set_inline_data;
	v->wr_set_inline_data_list = set_inline_data_list;
	return 0;
}

void builder_free(struct qp *qp)
{
	struct builder *b = qp->builder;
	if (!b)
		return;
	pd_free(&b->block);
	free(b);
}
