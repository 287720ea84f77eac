/*
 * What the programs of the tests share: two connected queue pairs of one process.
 */
#ifndef PAIR_H
#define PAIR_H

#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* CHECK ends the program with a message unless a condition holds. */
#define CHECK(condition)                                                                          \
	do {                                                                                      \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: %s: errno %d (%s)\n", __FILE__, __LINE__, #condition, \
				errno, strerror(errno));                                          \
			_exit(1);                                                                 \
		}                                                                                 \
	} while (0)

enum { LIMIT = 60 }; /* seconds: the limit of every wait. It only ends a program that hangs. */
enum { PAGE = 4096, LENGTH = 4 * PAGE, DEPTH = 64 };
enum { ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf; /* LENGTH bytes, mapped */
};

static inline struct ibv_context *open_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	CHECK(list && n > 0 && !strcmp(ibv_get_device_name(list[0]), "soft0"));
	struct ibv_context *context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return context;
}

static inline struct end end_on(struct ibv_context *context)
{
	struct end e = {.context = context};
	CHECK(e.context);
	CHECK(e.pd = ibv_alloc_pd(e.context));
	CHECK(e.channel = ibv_create_comp_channel(e.context));
	CHECK(e.cq = ibv_create_cq(e.context, 4 * DEPTH, NULL, e.channel, 0));
	struct ibv_qp_init_attr init = {.send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
	CHECK(e.qp = ibv_create_qp(e.pd, &init));
	e.buf = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(e.buf != MAP_FAILED);
	CHECK(e.mr = ibv_reg_mr(e.pd, e.buf, LENGTH, ACCESS));
	return e;
}

/* try_connect moves a queue pair to RTS. It returns the errno of the move that failed, or 0. */
static inline int try_connect(struct end *e, struct ibv_context *peer, uint32_t qpn)
{
	union ibv_gid gid;
	CHECK(!ibv_query_gid(peer, 1, 1, &gid));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	int error = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qpn, .max_dest_rd_atomic = 4,
				    .min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 1}}};
	if (!error)
		error = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	if (!error)
		error = ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
							    IBV_QP_MAX_QP_RD_ATOMIC);
	return error;
}

static inline void connect_to(struct end *e, struct ibv_context *peer, uint32_t qpn)
{
	CHECK(!try_connect(e, peer, qpn));
}

/* pair_on fills two connected ends. */
static inline void pair_on(struct ibv_context *context, struct end *a, struct end *b)
{
	*a = end_on(context);
	*b = end_on(context);
	connect_to(a, context, b->qp->qp_num);
	connect_to(b, context, a->qp->qp_num);
}

static inline void free_end(struct end *e)
{
	CHECK(!ibv_destroy_qp(e->qp));
	CHECK(!ibv_dereg_mr(e->mr));
	CHECK(!ibv_destroy_cq(e->cq));
	CHECK(!ibv_destroy_comp_channel(e->channel));
	CHECK(!ibv_dealloc_pd(e->pd));
	munmap(e->buf, LENGTH);
}

/* unmap keeps the hole, which mmap would else give to any thread, such as Go's. */
static inline void unmap(void *from, size_t length)
{
	CHECK(mmap(from, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == from);
}

static inline int post_recv(struct end *e, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = LENGTH, .lkey = e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
	return ibv_post_recv(e->qp, &wr, &bad);
}

/* post sends length bytes of the buffer, or accesses the same place of the other end's. */
static inline int post(struct end *e, enum ibv_wr_opcode op, const struct end *other, uint32_t length, uint64_t id)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf, .length = length, .lkey = e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = id, .opcode = op, .sg_list = &sge, .num_sge = 1}, *bad;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)other->buf;
		wr.wr.atomic.rkey = other->mr->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)other->buf;
		wr.wr.rdma.rkey = other->mr->rkey;
	}
	return ibv_post_send(e->qp, &wr, &bad);
}

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* completion polls until there is a completion, for at most LIMIT. */
static inline struct ibv_wc completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n = 0;
	for (double limit = now() + LIMIT; n == 0 && now() < limit;)
		n = ibv_poll_cq(cq, 1, &wc);
	CHECK(n == 1);
	return wc;
}

static inline void exchange(struct end *a, struct end *b, uint32_t length)
{
	memset(a->buf, 0x5a, length);
	CHECK(!post_recv(b, 1));
	CHECK(!post(a, IBV_WR_SEND, b, length, 2));
	struct ibv_wc sent = completion(a->cq), received = completion(b->cq);
	CHECK(sent.status == IBV_WC_SUCCESS && received.status == IBV_WC_SUCCESS);
	CHECK(received.byte_len == length && !memcmp(a->buf, b->buf, length));
}

/* A case of a program, and run_named, which runs the one that the argument names. */
struct named {
	const char *name;
	void (*run)(struct ibv_context *);
};
static inline int run_named(int argc, char **argv, const struct named *cases, size_t n)
{
	struct ibv_context *context = open_device();
	CHECK(argc == 2 && context);
	for (size_t i = 0; i < n; i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run(context);
			puts("ok");
			return 0;
		}
	return 2;
}

#endif
