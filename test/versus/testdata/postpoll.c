/*
 * The C program that ../postpoll_test.go compares with: the same work in C.
 *
 *     postpoll DEVICE GID_INDEX BATCH ROUNDS WAIT
 *
 * It connects two queue pairs of one process on one device. Each round posts BATCH
 * signaled RDMA WRITEs of 8 bytes with one ibv_post_send, then polls until all have
 * completed. WAIT selects what happens if a poll returns nothing:
 *
 *     spin    call sched_yield and poll again. rdma_rxe works in kernel threads; without
 *             sched_yield a thread of this processor would wait for the next clock tick
 *     block   arm the CQ, poll once more, and wait in ibv_get_cq_event
 *     poll    the same with a non-blocking channel, and wait in poll(2)
 *
 * It prints the median duration of a post and of a round, in ns, and the average number
 * of waits per round.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>

static void fail(const char *what)
{
	fprintf(stderr, "postpoll: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static long waits;

/* Waits for the completion event of the armed CQ. */
static void await(struct ibv_comp_channel *channel, int nonblocking)
{
	struct ibv_cq *cq;
	void *context;

	waits++;
	while (ibv_get_cq_event(channel, &cq, &context)) {
		struct pollfd p = {.fd = channel->fd, .events = POLLIN};
		if (!nonblocking || errno != EAGAIN)
			fail("ibv_get_cq_event");
		if (poll(&p, 1, -1) < 0)
			fail("poll");
	}
	ibv_ack_cq_events(cq, 1);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid, int gid_index)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		fail("RESET to INIT");
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer;
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 12;
	a.ah_attr.is_global = 1;
	a.ah_attr.port_num = 1;
	a.ah_attr.grh.dgid = *gid;
	a.ah_attr.grh.sgid_index = gid_index;
	a.ah_attr.grh.hop_limit = 64;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("INIT to RTR");
	memset(&a, 0, sizeof a);
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTR to RTS");
}

int main(int argc, char **argv)
{
	int spin = argc == 6 && !strcmp(argv[5], "spin"), nonblocking = argc == 6 && !strcmp(argv[5], "poll");
	if (argc != 6 || (!spin && !nonblocking && strcmp(argv[5], "block"))) {
		fprintf(stderr, "usage: postpoll DEVICE GID_INDEX BATCH ROUNDS spin|block|poll\n");
		return 2;
	}
	int gid_index = atoi(argv[2]), batch = atoi(argv[3]), rounds = atoi(argv[4]), n;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *ctx = NULL;
	for (int i = 0; i < n; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		fail(argv[1]);
	union ibv_gid gid;
	if (ibv_query_gid(ctx, 1, gid_index, &gid))
		fail("ibv_query_gid");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	if (!channel || (nonblocking && fcntl(channel->fd, F_SETFL, O_NONBLOCK)))
		fail("making the channel");
	struct ibv_cq *cq = ibv_create_cq(ctx, batch, NULL, channel, 0);
	static char memory[4096] __attribute__((aligned(4096)));
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) : NULL;
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = batch, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	if (!cq || !mr)
		fail("making objects");
	struct ibv_qp *a = ibv_create_qp(pd, &init), *b = ibv_create_qp(pd, &init);
	if (!a || !b)
		fail("ibv_create_qp");
	connect_to(a, b->qp_num, &gid, gid_index);
	connect_to(b, a->qp_num, &gid, gid_index);

	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
	struct ibv_send_wr *wrs = calloc(batch, sizeof *wrs);
	struct ibv_wc *wcs = calloc(batch, sizeof *wcs);
	int64_t *posts = calloc(rounds, sizeof *posts), *wholes = calloc(rounds, sizeof *wholes);
	for (int r = 0; r < rounds; r++) {
		int64_t t0 = now();
		/* Fill in the requests in each round, as a real program does. */
		for (int i = 0; i < batch; i++) {
			wrs[i] = (struct ibv_send_wr){.wr_id = i, .next = i + 1 < batch ? &wrs[i + 1] : NULL, .sg_list = &sge, .num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = {.remote_addr = (uintptr_t)memory + 2048, .rkey = mr->rkey}};
		}
		struct ibv_send_wr *bad;
		if ((errno = ibv_post_send(a, wrs, &bad)))
			fail("ibv_post_send");
		int64_t t1 = now();
		for (int done = 0; done < batch;) {
			int got = ibv_poll_cq(cq, batch, wcs);
			if (got == 0 && spin)
				sched_yield();
			if (got == 0 && !spin) {
				if ((errno = ibv_req_notify_cq(cq, 0)))
					fail("ibv_req_notify_cq");
				if ((got = ibv_poll_cq(cq, batch, wcs)) == 0) {
					await(channel, nonblocking);
					continue;
				}
			}
			if (got < 0)
				fail("ibv_poll_cq");
			for (int i = 0; i < got; i++)
				if (wcs[i].status != IBV_WC_SUCCESS) {
					fprintf(stderr, "postpoll: %s\n", ibv_wc_status_str(wcs[i].status));
					return 1;
				}
			done += got;
		}
		posts[r] = t1 - t0;
		wholes[r] = now() - t0;
	}
	qsort(posts, rounds, sizeof *posts, ascending);
	qsort(wholes, rounds, sizeof *wholes, ascending);
	printf("%lld %lld %g\n", (long long)posts[rounds / 2], (long long)wholes[rounds / 2], (double)waits / rounds);
	return 0;
}
