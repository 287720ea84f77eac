/* FLUSH from C. The headers of old versions lack its names, and its place in struct ibv_qp_ex. */
#include "pair.h"

#include <stddef.h>

enum { WITH_FLUSH = 1 << 11, ACCESS_FLUSH_GLOBAL = 1 << 8, WC_FLUSH = 8, GLOBAL = 1, PERSISTENT = 2, RANGE = 0, MR = 1 };

typedef void flush_call(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level);

static flush_call *flush_of(struct ibv_qp_ex *qp)
{
	return *(flush_call **)((char *)qp + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *));
}

static struct ibv_qp *create(struct end *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = type, .pd = e->pd, .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | WITH_FLUSH,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
	return ibv_create_qp_ex(e->context, &init);
}

static struct end flushing(struct ibv_context *context)
{
	struct end e = end_on(context);
	CHECK(!ibv_destroy_qp(e.qp) && !ibv_dereg_mr(e.mr));
	CHECK(e.qp = create(&e, IBV_QPT_RC));
	CHECK(e.mr = ibv_reg_mr(e.pd, e.buf, LENGTH, ACCESS | ACCESS_FLUSH_GLOBAL));
	return e;
}

/* post_flush posts a FLUSH of the other end's buffer. */
static int post_flush(struct ibv_qp_ex *qp, struct end *other, size_t length, uint8_t type, uint8_t level)
{
	ibv_wr_start(qp);
	qp->wr_id = 2;
	qp->wr_flags = IBV_SEND_SIGNALED;
	flush_of(qp)(qp, other->mr->rkey, (uintptr_t)other->buf, length, type, level);
	return ibv_wr_complete(qp);
}

int main(void)
{
	struct ibv_context *context = open_device();
	struct end a = flushing(context), b = flushing(context);
	connect_to(&a, context, b.qp->qp_num);
	connect_to(&b, context, a.qp->qp_num);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .qp_access_flags = ACCESS | ACCESS_FLUSH_GLOBAL};
	CHECK(!ibv_modify_qp(b.qp, &attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a.qp);
	CHECK(qp);

	memset(a.buf, 0x5a, LENGTH);
	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, b.mr->rkey, (uintptr_t)b.buf);
	ibv_wr_set_sge(qp, a.mr->lkey, (uintptr_t)a.buf, LENGTH);
	qp->wr_id = 2;
	qp->wr_flags = IBV_SEND_SIGNALED;
	flush_of(qp)(qp, b.mr->rkey, (uintptr_t)b.buf, LENGTH, GLOBAL, RANGE);
	CHECK(!ibv_wr_complete(qp));
	struct ibv_wc wc = completion(a.cq);
	CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2 && (int)wc.opcode == WC_FLUSH && !memcmp(a.buf, b.buf, LENGTH));

	CHECK(!post_flush(qp, &b, 0, GLOBAL, MR));
	CHECK(completion(a.cq).status == IBV_WC_SUCCESS);
	CHECK(post_flush(qp, &b, LENGTH, 0, RANGE) == EINVAL);
	CHECK(post_flush(qp, &b, 1ull << 32 | 8, GLOBAL, RANGE) == EINVAL);
	CHECK(!post_flush(qp, &b, LENGTH + 1, GLOBAL, RANGE));
	CHECK(completion(a.cq).status == IBV_WC_REM_ACCESS_ERR);

	CHECK(!create(&a, IBV_QPT_UC) && errno == EOPNOTSUPP);
	free_end(&a);
	free_end(&b);
	CHECK(!ibv_close_device(context));
	puts("ok");
	return 0;
}
