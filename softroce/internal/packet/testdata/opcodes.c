/*
 * Makes traffic with the opcodes that pingpong and perftest do not use:
 * immediate data, invalidates, messages of one packet, ATOMIC WRITE, RNR NAK and NAK. Both
 * ends are in this process, on two rxe devices.
 *
 *	opcodes DEVICE0 GIDINDEX0 DEVICE1 GIDINDEX1
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MTU = 256, SIZE = 4096, QKEY = 0x11111111 };

#define CHECK(x) do { if (!(x)) { perror(#x); exit(1); } } while (0)

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	int gid_index;
	union ibv_gid gid;
	_Alignas(8) char buf[SIZE];
};

static void open_end(struct end *e, const char *name, int gid_index)
{
	struct ibv_device **l = ibv_get_device_list(NULL);

	while (*l && strcmp(ibv_get_device_name(*l), name))
		l++;
	CHECK(*l);
	CHECK(e->ctx = ibv_open_device(*l));
	e->gid_index = gid_index;
	CHECK(!ibv_query_gid(e->ctx, 1, gid_index, &e->gid));
	CHECK(e->pd = ibv_alloc_pd(e->ctx));
	CHECK(e->cq = ibv_create_cq(e->ctx, 64, NULL, NULL, 0));
	for (int i = 0; i < SIZE; i++)
		e->buf[i] = i;
	CHECK(e->mr = ibv_reg_mr(e->pd, e->buf, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND));
}

static void make_qp(struct end *e, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr a = { .send_cq = e->cq, .recv_cq = e->cq, .qp_type = type, .sq_sig_all = 1,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 } };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

	struct ibv_qp_init_attr_ex ex = { .send_cq = e->cq, .recv_cq = e->cq, .qp_type = type, .sq_sig_all = 1, .cap = a.cap,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .pd = e->pd,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE };

	CHECK(e->qp = type == IBV_QPT_RC ? ibv_create_qp_ex(e->pd->context, &ex) : ibv_create_qp(e->pd, &a));
	CHECK(!ibv_modify_qp(e->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
}

static struct ibv_ah_attr path(struct end *from, struct end *to)
{
	struct ibv_ah_attr ah = { .is_global = 1, .port_num = 1,
		.grh = { .dgid = to->gid, .sgid_index = from->gid_index, .hop_limit = 64 } };
	return ah;
}

static void connect_qp(struct end *e, struct end *peer, enum ibv_qp_type type)
{
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = peer->qp->qp_num,
		.rq_psn = 0xfffffe, .max_dest_rd_atomic = 1, .min_rnr_timer = 1, .ah_attr = path(e, peer) };
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .sq_psn = 0xfffffe, .timeout = 18, .retry_cnt = 7,
		.rnr_retry = 7, .max_rd_atomic = 1 };
	int rtr_mask = IBV_QP_STATE, rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (type != IBV_QPT_UD)
		rtr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (type == IBV_QPT_RC) {
		rtr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	CHECK(!ibv_modify_qp(e->qp, &rtr, rtr_mask));
	CHECK(!ibv_modify_qp(e->qp, &rts, rts_mask));
}

static enum ibv_wc_status wait_one(struct end *e)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		;
	CHECK(n == 1);
	return wc.status;
}

static void post_recv(struct end *e)
{
	struct ibv_sge sge = { (uintptr_t)e->buf, SIZE, e->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(e->qp, &wr, &bad));
}

/* One work request of n bytes of a's memory. */
static void post(struct end *a, struct ibv_send_wr wr, int n)
{
	struct ibv_sge sge = { (uintptr_t)a->buf, n, a->mr->lkey };
	struct ibv_send_wr *bad;

	wr.sg_list = &sge;
	wr.num_sge = 1;
	CHECK(!ibv_post_send(a->qp, &wr, &bad));
}

/* The same, waited for at a, where b takes no receive. */
static void done(struct end *a, struct ibv_send_wr wr, int n)
{
	post(a, wr, n);
	CHECK(wait_one(a) == IBV_WC_SUCCESS);
}

/* The same, waited for at both ends, where b takes one. */
static void message(struct end *a, struct end *b, struct ibv_send_wr wr, int n)
{
	post_recv(b);
	post(a, wr, n);
	CHECK(wait_one(a) == IBV_WC_SUCCESS);
	CHECK(wait_one(b) == IBV_WC_SUCCESS);
}

/* A window over b's memory, for a's send to invalidate. */
static uint32_t bind_window(struct end *b)
{
	struct ibv_mw *mw = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW }, *bad;

	CHECK(mw);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ b->mr, (uintptr_t)b->buf, SIZE, IBV_ACCESS_REMOTE_WRITE };
	CHECK(!ibv_post_send(b->qp, &wr, &bad));
	CHECK(wait_one(b) == IBV_WC_SUCCESS);
	return wr.bind_mw.rkey;
}

/* An ATOMIC WRITE of a's first word, which only this way of posting has. */
static void atomic_write(struct end *a, struct end *b)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(a->qp);

	ibv_wr_start(qp);
	qp->wr_id = 0;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_atomic_write(qp, b->mr->rkey, (uintptr_t)b->buf, a->buf);
	CHECK(!ibv_wr_complete(qp));
	CHECK(wait_one(a) == IBV_WC_SUCCESS);
}

static void immediates(struct end *a, struct end *b)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(0x01020304),
		.send_flags = IBV_SEND_SOLICITED };
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(0x0a0b0c0d),
		.wr.rdma = { (uintptr_t)b->buf, b->mr->rkey } };

	message(a, b, send, 7);
	message(a, b, send, 2 * MTU + 5);
	message(a, b, write, 0);
	message(a, b, write, 2);
	message(a, b, write, 2 * MTU + 2);
}

int main(int argc, char **argv)
{
	static struct end a, b;

	CHECK(argc == 5);
	open_end(&a, argv[1], atoi(argv[2]));
	open_end(&b, argv[3], atoi(argv[4]));

	make_qp(&a, IBV_QPT_UC);
	make_qp(&b, IBV_QPT_UC);
	connect_qp(&a, &b, IBV_QPT_UC);
	connect_qp(&b, &a, IBV_QPT_UC);
	immediates(&a, &b);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND };
	message(&a, &b, send, 3);
	struct ibv_send_wr write = { .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = { (uintptr_t)b.buf, b.mr->rkey } };
	done(&a, write, 4);

	make_qp(&a, IBV_QPT_UD);
	make_qp(&b, IBV_QPT_UD);
	connect_qp(&a, &b, IBV_QPT_UD);
	connect_qp(&b, &a, IBV_QPT_UD);
	struct ibv_ah_attr to_b = path(&a, &b);
	struct ibv_send_wr ud = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(5) };
	CHECK(ud.wr.ud.ah = ibv_create_ah(a.pd, &to_b));
	ud.wr.ud.remote_qpn = b.qp->qp_num;
	ud.wr.ud.remote_qkey = QKEY;
	message(&a, &b, ud, 33);

	make_qp(&a, IBV_QPT_RC);
	make_qp(&b, IBV_QPT_RC);
	connect_qp(&a, &b, IBV_QPT_RC);
	connect_qp(&b, &a, IBV_QPT_RC);
	immediates(&a, &b);
	struct ibv_send_wr inv = { .opcode = IBV_WR_SEND_WITH_INV };
	inv.invalidate_rkey = bind_window(&b);
	message(&a, &b, inv, 9);
	inv.invalidate_rkey = bind_window(&b);
	message(&a, &b, inv, MTU + 9);

	struct ibv_send_wr read = { .opcode = IBV_WR_RDMA_READ, .wr.rdma = { (uintptr_t)b.buf, b.mr->rkey } };
	done(&a, read, 11);
	struct ibv_send_wr atomic = { .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = { (uintptr_t)b.buf, 1, 2, b.mr->rkey } };
	done(&a, atomic, 8);
	atomic.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	done(&a, atomic, 8);

	atomic_write(&a, &b);

	post(&a, send, 10); /* to a receiver not ready */
	usleep(20000);
	post_recv(&b);
	CHECK(wait_one(&a) == IBV_WC_SUCCESS);
	CHECK(wait_one(&b) == IBV_WC_SUCCESS);

	write.wr.rdma.rkey = ~b.mr->rkey;
	post(&a, write, 10);
	CHECK(wait_one(&a) == IBV_WC_REM_ACCESS_ERR);
	return 0;
}
