/*
 * Makes each kind of object and checks the rules of libibverbs: what is busy, what is refused with
 * which error, what the device does not have. It prints what is wrong, and exits with 1 then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures;
#define IS(condition, what)                                                                                 \
	do {                                                                                               \
		if (!(condition)) {                                                                        \
			printf("line %d: %s: errno %d (%s)\n", __LINE__, what, errno, strerror(errno));     \
			failures++;                                                                        \
		}                                                                                          \
	} while (0)
/* CHECK checks that a condition holds whose calls succeed: they leave errno alone. */
#define CHECK(condition)                                                \
	do {                                                            \
		errno = EDOM;                                           \
		IS((condition) && errno == EDOM, #condition);           \
	} while (0)
/* FAILS checks that a call fails with an error, which is also in errno. */
#define FAILS(call, error)                                              \
	do {                                                            \
		errno = 0;                                              \
		IS((call) == (error) && errno == (error), #call);       \
	} while (0)
/* REFUSED is FAILS for calls that return another number after an error. */
#define REFUSED(call, number, error)                                    \
	do {                                                            \
		errno = 0;                                              \
		IS((call) == (number) && errno == (error), #call);      \
	} while (0)
/* NONE checks that a call makes no object, and its errno. */
#define NONE(call, error) REFUSED(call, NULL, error)
/* Stops the program where it cannot go on. */
#define NEED(condition)                 \
	do {                            \
		CHECK(condition);       \
		if (failures)           \
			exit(1);        \
	} while (0)

static struct ibv_context *context;
static uint8_t memory[4][4096] __attribute__((aligned(4096)));

/* A connected pair of queue pairs, with one CQ. */
struct pair {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
};

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = pd, .send_ops_flags = operations,
		.comp_mask = IBV_QP_INIT_ATTR_PD | (operations ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 3, .max_recv_sge = 3},
	};
	return ibv_create_qp_ex(context, &init);
}

static int move(struct ibv_qp *qp, uint32_t peer)
{
	const int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	int error = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 1, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 1}}};
	error = error ? error : ibv_query_gid(context, 1, 1, &a.ah_attr.grh.dgid);
	error = error ? error : ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	return error ? error : ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
							     IBV_QP_MAX_QP_RD_ATOMIC);
}

static struct pair connected(struct ibv_pd *pd, uint64_t operations)
{
	struct pair p = {.pd = pd};
	NEED(p.cq = ibv_create_cq(context, 32, NULL, NULL, 0));
	for (int i = 0; i < 2; i++)
		NEED(p.qp[i] = make_qp(pd, p.cq, operations));
	for (int i = 0; i < 2; i++)
		NEED(move(p.qp[i], p.qp[1 - i]->qp_num) == 0);
	return p;
}

static void destroy(struct pair *p)
{
	FAILS(ibv_destroy_cq(p->cq), EBUSY);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_destroy_qp(p->qp[i]) == 0);
	CHECK(ibv_destroy_cq(p->cq) == 0);
}

/* n completions, all of them successful. */
static void completions(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc;
	while (n > 0) {
		int got = ibv_poll_cq(cq, 1, &wc);
		NEED(got >= 0);
		if (got && wc.status) {
			printf("completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		n -= got;
	}
}

static int allocated, freed;
static struct ibv_cq *resized; /* allocate resizes it once more: no lock is held */
static void *allocate(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t type)
{
	(void)pd, (void)type;
	CHECK(pd_context == &allocated);
	allocated++;
	struct ibv_cq *cq = resized;
	resized = NULL;
	CHECK(!cq || ibv_resize_cq(cq, 50) == 0);
	void *start = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
	return start ? memset(start, 0xee, size) : NULL;
}

static void release(struct ibv_pd *pd, void *pd_context, void *start, uint64_t type)
{
	(void)pd, (void)type;
	CHECK(pd_context == &allocated);
	freed++;
	free(start);
}

static void domains(void)
{
	struct ibv_td *td = ibv_alloc_td(context, &(struct ibv_td_init_attr){0});
	struct ibv_pd *pd = ibv_alloc_pd(context);
	NEED(td && pd);
	struct ibv_parent_domain_init_attr init = {
		.pd = pd, .td = td, .alloc = allocate, .free = release, .pd_context = &allocated,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &init);
	NEED(parent);
	FAILS(ibv_dealloc_pd(pd), EBUSY);
	FAILS(ibv_dealloc_td(td), EBUSY);
	struct ibv_parent_domain_init_attr none = {0}, nested = {.pd = parent};
	NONE(ibv_alloc_parent_domain(context, &none), EINVAL);
	NONE(ibv_alloc_parent_domain(context, &nested), EINVAL);

	struct ibv_cq_init_attr_ex cq_init = {.cqe = 10, .wc_flags = IBV_WC_STANDARD_FLAGS, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_init);
	NEED(cq && allocated == 1);
	CHECK(ibv_resize_cq(resized = ibv_cq_ex_to_cq(cq), 100) == 0 && allocated == 3 && freed == 2);
	FAILS(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 0), EINVAL);
	FAILS(ibv_dealloc_pd(parent), EBUSY);
	struct pair p = connected(parent, IBV_QP_EX_WITH_SEND);
	CHECK(allocated == 5);
	destroy(&p);
	CHECK(freed == 4);
	cq_init.parent_domain = pd; /* no parent domain */
	NONE(ibv_create_cq_ex(context, &cq_init), EINVAL);
	cq_init.comp_mask = 0;
	cq_init.wc_flags = IBV_WC_EX_WITH_TM_INFO;
	NONE(ibv_create_cq_ex(context, &cq_init), EOPNOTSUPP);
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0 && freed == 5);
	CHECK(ibv_dealloc_pd(parent) == 0);
	CHECK(ibv_dealloc_td(td) == 0);

	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, 0);
	FAILS(ibv_dealloc_pd(pd), EBUSY);
	NONE(ibv_reg_mr(pd, memory, 0, 0), EINVAL);
	NONE(ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	NONE(ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	NONE(ibv_reg_mr(pd, NULL, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NONE(ibv_reg_mr(pd, (void *)64, 4096, IBV_ACCESS_ON_DEMAND), EFAULT);
	NONE(ibv_reg_mr(pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
	REFUSED(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, SIZE_MAX, 0), IBV_REREG_MR_ERR_CMD, EINVAL);
	REFUSED(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)64, 4096, 0), IBV_REREG_MR_ERR_CMD, EFAULT);
	REFUSED(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT, EINVAL);
	NONE(ibv_alloc_mw(pd, 3), EINVAL);
	CHECK(ibv_dereg_mr(mr) == 0);
	CHECK(ibv_dealloc_pd(pd) == 0);
}

static void device_memory(struct ibv_pd *pd)
{
	struct ibv_device_attr_ex attr;
	NEED(ibv_query_device_ex(context, NULL, &attr) == 0 && attr.max_dm_size > 0);
	CHECK(attr.odp_caps.general_caps == (IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT));
	struct ibv_alloc_dm_attr init = {.length = attr.max_dm_size + 1};
	NONE(ibv_alloc_dm(context, &init), ENOMEM);
	init.length = attr.max_dm_size;
	struct ibv_dm *dm = ibv_alloc_dm(context, &init);
	NEED(dm);
	init.length = 4;
	NONE(ibv_alloc_dm(context, &init), ENOMEM); /* nothing is left */
	FAILS(ibv_memcpy_to_dm(dm, 2, memory, 4), EFAULT);
	FAILS(ibv_memcpy_to_dm(dm, 4, memory, attr.max_dm_size), EFAULT);
	CHECK(ibv_memcpy_to_dm(dm, 8, "in memory", 8) == 0);
	CHECK(ibv_memcpy_from_dm(memory, dm, 8, 8) == 0 && !memcmp(memory, "in memory", 8));
	NONE(ibv_reg_dm_mr(pd, dm, 0, 64, 0), EINVAL); /* not ZERO_BASED */
	struct ibv_mr *mr = ibv_reg_dm_mr(pd, dm, 8, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE);
	NEED(mr);
	FAILS(ibv_free_dm(dm), EBUSY);
	CHECK(ibv_dereg_mr(mr) == 0 && ibv_free_dm(dm) == 0);
}

/* Sends 8 bytes, 100 bytes of a null region and 8 bytes; and receives with a null region. */
static void null_region(struct pair *p)
{
	struct ibv_mr *mr = ibv_reg_mr(p->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *null = ibv_alloc_null_mr(p->pd);
	NEED(mr && null);
	memset(memory[0], 'a', sizeof memory[0]);
	memset(memory[1], 'b', sizeof memory[1]);
	struct ibv_sge from[] = {{(uintptr_t)memory[0], 8, mr->lkey}, {0, 100, null->lkey}, {(uintptr_t)memory[0], 8, mr->lkey}};
	struct ibv_sge to[] = {{12345, 4, null->lkey}, {(uintptr_t)memory[1], 112, mr->lkey}};
	struct ibv_recv_wr recv = {.sg_list = to, .num_sge = 2}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = from, .num_sge = 3, .opcode = IBV_WR_SEND}, *bad;
	CHECK(ibv_post_recv(p->qp[1], &recv, &bad_recv) == 0);
	CHECK(ibv_post_send(p->qp[0], &send, &bad) == 0);
	completions(p->cq, 2);
	static const uint8_t zeros[100];
	CHECK(!memcmp(memory[1], "aaaa", 4) && !memcmp(memory[1] + 4, zeros, 100) && !memcmp(memory[1] + 104, "aaaaaaaab", 9));
	CHECK(ibv_dereg_mr(null) == 0 && ibv_dereg_mr(mr) == 0);
}

/* The regions of on-demand paging. */
static void implicit_region(struct pair *p)
{
	struct ibv_mr *all = ibv_reg_mr(p->pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	NEED(all);
	memset(memory[0], 'x', sizeof memory[0]);
	struct ibv_sge from = {(uintptr_t)memory[0], 512, all->lkey};
	struct ibv_send_wr write = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
				    .wr.rdma = {(uintptr_t)memory[3], all->rkey}}, *bad;
	CHECK(ibv_post_send(p->qp[0], &write, &bad) == 0);
	completions(p->cq, 1);
	CHECK(!memcmp(memory[0], memory[3], 512));
	CHECK(ibv_dereg_mr(all) == 0);
}

/* RESET takes the completions of a queue pair out of its CQ, and only those. */
static void forgets(struct pair *p)
{
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad;
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR}, reset = {.qp_state = IBV_QPS_RESET};
	for (int i = 0; i < 6; i++)
		CHECK(ibv_post_recv(p->qp[i % 2], &recv, &bad) == 0);
	for (int i = 0; i < 2; i++)
		CHECK(ibv_modify_qp(p->qp[i], &error, IBV_QP_STATE) == 0);
	CHECK(ibv_modify_qp(p->qp[0], &reset, IBV_QP_STATE) == 0);
	struct ibv_wc wcs[8];
	CHECK(ibv_poll_cq(p->cq, 8, wcs) == 3);
	for (int i = 0; i < 3; i++)
		CHECK(wcs[i].qp_num == p->qp[1]->qp_num && wcs[i].status == IBV_WC_WR_FLUSH_ERR && wcs[i].wr_id == 1);
}

/* What calls leave in errno and bad_wr. */
static void answers(struct ibv_pd *pd)
{
	struct pair pair = connected(pd, 0), *p = &pair;
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQE};
	struct ibv_qp_init_attr init;
	struct ibv_async_event event;
	struct ibv_cq *of;
	struct ibv_gid_entry entries[16];
	union ibv_gid gid = {.raw = {0xff, 0x0e}};
	void *its;
	__be16 key;
	FAILS(ibv_modify_qp(p->qp[0], &attr, IBV_QP_STATE), EINVAL);
	FAILS(ibv_query_port(context, 2, &port), EINVAL);
	FAILS(ibv_attach_mcast(p->qp[0], &gid, 0), EINVAL);
	FAILS(ibv_detach_mcast(p->qp[0], &gid, 0), EINVAL);
	FAILS(ibv_query_gid_ex(context, 1, 99, entries, 0), EINVAL);
	FAILS(ibv_req_notify_cq(p->cq, 0), EINVAL); /* it has no channel */
	REFUSED(ibv_query_gid_table(context, entries, 0, 0), -EINVAL, EINVAL);
	REFUSED(ibv_query_gid(context, 1, 99, &gid), -1, EINVAL);
	REFUSED(ibv_query_pkey(context, 1, 99, &key), -1, EINVAL);
	REFUSED(ibv_get_pkey_index(context, 1, 0x1234), -1, EINVAL);
	CHECK(ibv_query_device(context, &device) == 0 && ibv_query_port(context, 1, &port) == 0);
	CHECK(ibv_query_gid_table(context, entries, 16, 0) > 1 && ibv_query_pkey(context, 1, 0, &key) == 0);
	CHECK(ibv_get_pkey_index(context, 1, key) == 0 && ibv_query_qp(p->qp[0], &attr, IBV_QP_STATE, &init) == 0);
	CHECK(ibv_get_device_name(context->device) && ibv_get_device_guid(context->device) && ibv_get_device_index(context->device) == -1);
	CHECK(ibv_wc_status_str(IBV_WC_SUCCESS) && ibv_rate_to_mbps(IBV_RATE_10_GBPS) == 10000 && ibv_fork_init() == 0);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cq = channel ? ibv_create_cq(context, 1, NULL, channel, 0) : NULL;
	NEED(cq && fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0 && fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
	CHECK(ibv_req_notify_cq(cq, 0) == 0);
	FAILS(ibv_destroy_comp_channel(channel), EBUSY);
	REFUSED(ibv_get_cq_event(channel, &of, &its), -1, EAGAIN);
	REFUSED(ibv_get_async_event(context, &event), -1, EAGAIN);
	CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);

	static struct ibv_sge many[99];
	struct ibv_recv_wr recvs[2] = {{.next = &recvs[1]}, {.sg_list = many, .num_sge = 99}}, *bad_recv = recvs + 2;
	struct ibv_send_wr sends[2] = {{.next = &sends[1], .opcode = IBV_WR_RDMA_WRITE}, {.opcode = 999}}, *bad = sends + 2;
	FAILS(ibv_post_recv(p->qp[1], recvs, &bad_recv), EINVAL);
	FAILS(ibv_post_send(p->qp[0], sends, &bad), EINVAL);
	CHECK(bad_recv == &recvs[1] && bad == &sends[1]);
	completions(p->cq, 1);
	sends[0].next = NULL;
	recvs[0].next = NULL;
	bad = sends + 2;
	bad_recv = recvs + 2;
	CHECK(ibv_post_send(p->qp[0], sends, &bad) == 0 && ibv_post_recv(p->qp[1], recvs, &bad_recv) == 0);
	CHECK(bad == sends + 2 && bad_recv == recvs + 2); /* mlx5 leaves them alone, too */
	destroy(p);
}

static void imports(struct ibv_pd *pd)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	int fd = dup(context->cmd_fd);
	NONE(ibv_import_device(STDOUT_FILENO), EINVAL);
	struct ibv_context *other = ibv_import_device(fd);
	NEED(mr && other && other->cmd_fd == fd);
	NONE(ibv_import_pd(other, 999999), ENOENT);
	struct ibv_pd *same = ibv_import_pd(other, pd->handle);
	NEED(same);
	NONE(ibv_import_mr(same, 999999), ENOENT);
	NONE(ibv_import_dm(other, 999999), ENOENT);
	struct ibv_mr *again = ibv_import_mr(same, mr->handle);
	CHECK(again && again->lkey == mr->lkey && again->length == mr->length);
	FAILS(ibv_dealloc_pd(pd), EBUSY);
	ibv_unimport_mr(again);
	ibv_unimport_pd(same);
	struct ibv_pd *owned = ibv_alloc_pd(context);
	NEED(owned && (same = ibv_import_pd(other, owned->handle)));
	FAILS(ibv_dealloc_pd(owned), EBUSY); /* the import is in use */
	ibv_unimport_pd(same);
	CHECK(ibv_dealloc_pd(owned) == 0);
	CHECK(ibv_close_device(other) == 0);
	CHECK(ibv_dereg_mr(mr) == 0); /* the object outlives the other context */
}

/* A datagram to itself, and the way back to its sender. */
static void datagram(struct ibv_pd *pd)
{
	enum { QKEY = 0x1234, GRH = 40 };
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {2, 2, 1, 1, 0}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	NEED(cq && mr && qp);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};
	NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) == 0);
	a.qp_state = IBV_QPS_RTR;
	NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE) == 0);
	a.qp_state = IBV_QPS_RTS;
	NEED(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0);
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 7}}, back;
	NEED(ibv_query_gid(context, 1, 1, &to.grh.dgid) == 0);
	struct ibv_ah *ah = ibv_create_ah(pd, &to);
	struct ibv_sge from = {(uintptr_t)memory[0], 16, mr->lkey}, into = {(uintptr_t)memory[1], GRH + 16, mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &into, .num_sge = 1}, *bad_recv;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, qp->qp_num, QKEY}}, *bad;
	struct ibv_wc wc;
	for (int i = 0; i < 2; i++) {
		NEED(ah && ibv_post_recv(qp, &recv, &bad_recv) == 0 && ibv_post_send(qp, &send, &bad) == 0);
		while (!ibv_poll_cq(cq, 1, &wc))
			;
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wc_flags & IBV_WC_GRH && wc.byte_len == GRH + 16);
		CHECK(wc.sl == 0xa); /* IPv4, as mlx5 says it */
		CHECK(ibv_init_ah_from_wc(context, 1, &wc, (struct ibv_grh *)memory[1], &back) == 0);
		CHECK(back.is_global && back.grh.hop_limit == 7 && !memcmp(&back.grh.dgid, &to.grh.dgid, 16) && back.sl == 0);
		CHECK(ibv_destroy_ah(ah) == 0);
		ah = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)memory[1], 1);
		send.wr.ud.ah = ah; /* the second datagram takes the way back */
	}
	CHECK(ah && ibv_destroy_ah(ah) == 0);
	wc.wc_flags = 0;
	REFUSED(ibv_init_ah_from_wc(context, 1, &wc, NULL, &back), -1, EINVAL);
	NONE(ibv_create_ah_from_wc(pd, &wc, NULL, 1), EINVAL);
	CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0);
}

/* What the device does not have answers EOPNOTSUPP. */
static void absent(struct pair *p)
{
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1};
	struct ibv_qp_open_attr open = {0};
	struct ibv_wq_init_attr wq = {0};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_flow_attr flow = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_qp_rate_limit_attr rate = {0};
	struct ibv_ece ece = {0};
	struct ibv_cq_ex *cq;
	NONE(ibv_open_xrcd(context, &xrcd), EOPNOTSUPP);
	NONE(ibv_open_qp(context, &open), EOPNOTSUPP);
	NONE(ibv_create_wq(context, &wq), EOPNOTSUPP);
	NONE(ibv_create_rwq_ind_table(context, &table), EOPNOTSUPP);
	NONE(ibv_create_flow(p->qp[0], &flow), EOPNOTSUPP);
	NONE(ibv_create_flow_action_esp(context, &esp), EOPNOTSUPP);
	NONE(ibv_create_counters(context, &counters), EOPNOTSUPP);
	IS(ibv_modify_qp_rate_limit(p->qp[0], &rate) == EOPNOTSUPP, "a rate limit"); /* the header's function sets no errno */
	FAILS(ibv_query_ece(p->qp[0], &ece), EOPNOTSUPP);
	FAILS(ibv_set_ece(p->qp[0], &ece), EOPNOTSUPP);
	NONE(make_qp(p->pd, p->cq, IBV_QP_EX_WITH_TSO), EOPNOTSUPP);
	struct ibv_qp_init_attr raw = {.send_cq = p->cq, .recv_cq = p->cq, .qp_type = IBV_QPT_RAW_PACKET, .cap = {1, 1, 1, 1, 0}};
	IS(!ibv_create_qp(p->pd, &raw) && (errno == EOPNOTSUPP || errno == EINVAL || errno == EPERM), "a raw queue pair");
	struct ibv_cq_init_attr_ex init = {.cqe = 1};
	NEED(cq = ibv_create_cq_ex(context, &init));
	struct ibv_wc_tm_info info;
	CHECK(ibv_wc_read_flow_tag(cq) == 0 && ibv_wc_read_cvlan(cq) == 0);
	ibv_wc_read_tm_info(cq, &info);
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);

	struct ibv_qp_ex *builder = ibv_qp_to_qp_ex(p->qp[0]);
	NEED(builder);
	ibv_wr_start(builder);
	ibv_wr_send_tso(builder, memory, 14, 1000);
	FAILS(ibv_wr_complete(builder), EOPNOTSUPP);
	ibv_wr_start(builder);
	ibv_wr_send(builder);
	ibv_wr_set_xrc_srqn(builder, 1);
	FAILS(ibv_wr_complete(builder), EOPNOTSUPP);
}

/* Functions of later releases, which the headers may not have. */
static void later(struct ibv_pd *pd)
{
#define FIND(type, name, arguments, node) type(*name) arguments = (type(*) arguments)dlvsym(RTLD_DEFAULT, #name, node)
	struct attr {
		size_t length;
		int access;
		uint64_t mask, iova;
		void *addr;
		int fd;
		uint64_t offset;
		void *dmah, *buf;
	} init = {.length = 4096, .access = IBV_ACCESS_LOCAL_WRITE, .mask = 3, .addr = memory[0], .iova = 0x100000};
	FIND(struct ibv_mr *, ibv_reg_mr_ex, (struct ibv_pd *, struct attr *), "IBVERBS_1.15");
	FIND(void *, ibv_alloc_dmah, (struct ibv_context *, void *), "IBVERBS_1.15");
	FIND(int, ibv_query_port_speed, (struct ibv_context *, uint32_t, uint64_t *), "IBVERBS_1.16");
	FIND(void *, ibv_alloc_buf, (struct ibv_pd *, size_t, void **), "IBVERBS_1.17");
	FIND(struct ibv_mr *, ibv_reg_buf_mr, (struct ibv_pd *, void *, void *, size_t, int), "IBVERBS_1.17");
	FIND(void, ibv_free_buf, (void *), "IBVERBS_1.17");
	FIND(int, ibv_export_buf_dmabuf_fd, (void *), "IBVERBS_1.18");
	FIND(void *, ibv_create_comp_cntr, (struct ibv_context *, void *), "IBVERBS_1.18");
	FIND(int, _ibv_query_comp_cntr_caps, (struct ibv_context *, void *, size_t), "IBVERBS_1.18");
	NEED(ibv_reg_mr_ex && ibv_alloc_dmah && ibv_query_port_speed && ibv_alloc_buf && ibv_reg_buf_mr && ibv_free_buf &&
	     ibv_export_buf_dmabuf_fd && ibv_create_comp_cntr && _ibv_query_comp_cntr_caps);
	struct ibv_mr *mr = ibv_reg_mr_ex(pd, &init);
	CHECK(mr && mr->addr == memory[0] && ibv_dereg_mr(mr) == 0);
	init.mask = 1 << 4; /* a DMA handle */
	NONE(ibv_reg_mr_ex(pd, &init), EOPNOTSUPP);
	NONE(ibv_alloc_dmah(context, memory), EOPNOTSUPP);
	NONE(ibv_create_comp_cntr(context, memory), EOPNOTSUPP);
	FAILS(_ibv_query_comp_cntr_caps(context, memory, 16), EOPNOTSUPP);
	uint64_t speed = 0;
	CHECK(ibv_query_port_speed(context, 1, &speed) == 0 && speed > 0);
	FAILS(ibv_query_port_speed(context, 2, &speed), EINVAL);
	void *handle;
	char *buffer = ibv_alloc_buf(pd, 5000, &handle);
	NEED(buffer && (uintptr_t)buffer % 4096 == 0);
	NONE(ibv_reg_buf_mr(pd, handle, buffer + 4000, 1001, 0), EINVAL);
	NONE(ibv_reg_buf_mr(pd, NULL, buffer, 1000, 0), EINVAL); /* no buffer */
	mr = ibv_reg_buf_mr(pd, handle, buffer + 4000, 1000, 0);
	NEED(mr);
	REFUSED(ibv_export_buf_dmabuf_fd(handle), -1, ENODATA);
	CHECK(ibv_dereg_mr(mr) == 0);
	ibv_free_buf(handle);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	NEED(devices && devices[0] && (context = ibv_open_device(devices[0])));
	domains();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	NEED(pd);
	device_memory(pd);
	struct pair p = connected(pd, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_ATOMIC_WRITE);
	null_region(&p);
	implicit_region(&p);
	answers(pd);
	absent(&p);
	forgets(&p);
	destroy(&p);
	datagram(pd);
	imports(pd);
	later(pd);
	CHECK(ibv_dealloc_pd(pd) == 0);
	CHECK(ibv_close_device(context) == 0);
	ibv_free_device_list(devices);
	return failures > 0;
}
