/* Completion channels and asynchronous events. The argument selects the case. */
#include "pair.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/select.h>

static struct ibv_context *context;

enum { IN_TIME = 1000 * LIMIT, NOW = 0, MOMENT = 50 }; /* milliseconds */

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, ms) == 1 && p.revents & POLLIN;
}

/* event makes an event of a CQ whose queue pair sends to nobody: its receive is flushed. */
static struct ibv_qp *qp_of(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1, .max_recv_wr = 8, .max_recv_sge = 1}};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	CHECK(qp);
	return qp;
}

static void event(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	CHECK(!ibv_req_notify_cq(cq, 0));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!ibv_post_recv(qp, &wr, &bad));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_ERR};
	CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	CHECK(completion(cq).status == IBV_WC_WR_FLUSH_ERR);
}

/* poll, epoll and select see the events of a descriptor that does not block. */
static void nonblocking(void)
{
	struct end a, b;
	struct ibv_cq *cq;
	void *data;
	pair_on(context, &a, &b);
	CHECK(!fcntl(a.channel->fd, F_SETFL, O_NONBLOCK) && !fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
	CHECK(ibv_get_cq_event(a.channel, &cq, &data) == -1 && errno == EAGAIN);
	struct ibv_async_event async;
	CHECK(ibv_get_async_event(context, &async) == -1 && errno == EAGAIN);
	int ep = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN, .data.fd = a.channel->fd};
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, a.channel->fd, &e));
	for (int i = 0; i < 30; i++) {
		CHECK(!ibv_req_notify_cq(a.cq, 0));
		CHECK(!readable(a.channel->fd, NOW));
		CHECK(!post(&a, IBV_WR_RDMA_WRITE, &b, 8, i));
		if (i % 3 == 0) {
			CHECK(readable(a.channel->fd, IN_TIME));
		} else if (i % 3 == 1) {
			CHECK(epoll_wait(ep, &e, 1, IN_TIME) == 1 && e.data.fd == a.channel->fd);
		} else {
			fd_set set;
			FD_ZERO(&set);
			FD_SET(a.channel->fd, &set);
			struct timeval limit = {LIMIT, 0};
			CHECK(select(a.channel->fd + 1, &set, NULL, NULL, &limit) == 1);
		}
		CHECK(!ibv_get_cq_event(a.channel, &cq, &data) && cq == a.cq);
		CHECK(ibv_get_cq_event(a.channel, &cq, &data) == -1 && errno == EAGAIN);
		CHECK(completion(a.cq).status == IBV_WC_SUCCESS);
	}
	ibv_ack_cq_events(a.cq, 30);
	free_end(&a);
	free_end(&b);
}

/* One channel has many CQs. Those that are destroyed leave no event, and the channel still works. */
static void many(void)
{
	enum { CQS = 40 };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cqs[CQS], *cq;
	struct ibv_qp *qps[CQS];
	int seen[CQS] = {0};
	void *data;
	for (int i = 0; i < CQS; i++) {
		CHECK(cqs[i] = ibv_create_cq(context, 16, &seen[i], channel, 0));
		qps[i] = qp_of(pd, cqs[i]);
	}
	CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
	for (int round = 0; round < 3; round++)
		for (int i = 0; i < CQS; i++)
			event(qps[i], cqs[i]);
	for (int i = CQS - 1; i >= 0; i--) /* the last one drove for the channel */
		if (i % 4)
			CHECK(!ibv_destroy_qp(qps[i]) && !ibv_destroy_cq(cqs[i]));
	for (int i = 0; i < 3 * CQS / 4; i++) {
		CHECK(!ibv_get_cq_event(channel, &cq, &data));
		CHECK(data == cq->cq_context);
		++*(int *)data;
		ibv_ack_cq_events(cq, 1);
	}
	for (int i = 0; i < CQS; i++)
		CHECK(seen[i] == (i % 4 ? 0 : 3));
	CHECK(!readable(channel->fd, MOMENT));
	for (int i = 0; i < CQS; i += 4)
		CHECK(!ibv_destroy_qp(qps[i]) && !ibv_destroy_cq(cqs[i]));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd));
}

/* A thread waits at a channel whose CQs come and go, one after the other. */
static volatile bool over;
static int taken;
static void *wait_always(void *channel)
{
	struct ibv_cq *cq;
	void *data;
	while (!over) {
		CHECK(!ibv_get_cq_event(channel, &cq, &data));
		taken++;
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

static void replaced(void)
{
	struct end a, b;
	pthread_t thread;
	pair_on(context, &a, &b);
	CHECK(!pthread_create(&thread, NULL, wait_always, a.channel));
	for (int i = 0; i < 300; i++) {
		struct end old = a;
		struct ibv_cq *cq = ibv_create_cq(context, 4096, NULL, a.channel, 0);
		CHECK(cq && !ibv_resize_cq(cq, 8192) && !ibv_resize_cq(cq, 64));
		CHECK(!post(&a, IBV_WR_RDMA_WRITE, &b, 4000, i)); /* packets for the waiting thread */
		CHECK(!ibv_destroy_cq(cq));
		CHECK(completion(old.cq).status == IBV_WC_SUCCESS);
	}
	over = true;
	CHECK(!ibv_req_notify_cq(a.cq, 0) && !post(&a, IBV_WR_RDMA_WRITE, &b, 8, 1));
	CHECK(!pthread_join(thread, NULL) && taken == 1);
	free_end(&a);
	free_end(&b);
}

/* More events than a pipe holds. */
static void full(void)
{
	enum { EVENTS = 9000 };
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cqs[3], *cq;
	void *data;
	int counts[3] = {0};
	for (int i = 0; i < 3; i++) {
		CHECK(cqs[i] = ibv_create_cq(context, 16, &counts[i], channel, 0));
		struct ibv_qp *qp = qp_of(pd, cqs[i]);
		for (int k = 0; k < EVENTS / 3; k++)
			event(qp, cqs[i]);
		CHECK(!ibv_destroy_qp(qp));
	}
	CHECK(!ibv_destroy_cq(cqs[1])); /* its events are in the pipe and beyond */
	for (int i = 0; i < EVENTS * 2 / 3; i++) {
		CHECK(!ibv_get_cq_event(channel, &cq, &data));
		++*(int *)data;
	}
	CHECK(counts[0] == EVENTS / 3 && counts[1] == 0 && counts[2] == EVENTS / 3);
	CHECK(!readable(channel->fd, MOMENT));
	ibv_ack_cq_events(cqs[0], EVENTS / 3);
	ibv_ack_cq_events(cqs[2], EVENTS / 3);
	CHECK(!ibv_destroy_cq(cqs[0]) && !ibv_destroy_cq(cqs[2]));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd));
}

/* Destroying waits for acknowledgements. */
static struct ibv_async_event last;
static double acked;
static void *ack_later(void *cq)
{
	usleep(100000);
	acked = now();
	if (cq)
		ibv_ack_cq_events(cq, 1);
	else
		ibv_ack_async_event(&last);
	return NULL;
}

static void acks(void)
{
	pthread_t thread;
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0), *from;
	struct ibv_qp *qp = qp_of(pd, cq);
	void *data;
	event(qp, cq);
	event(qp, cq);
	CHECK(!ibv_get_cq_event(channel, &from, &data) && from == cq); /* the other is never read */
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!pthread_create(&thread, NULL, ack_later, cq));
	CHECK(!ibv_destroy_cq(cq) && acked > 0 && now() >= acked);
	CHECK(!pthread_join(thread, NULL));
	CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd));
}

/* fail makes the queue pair of an end have an event: a peer writes with a key that does not exist. */
static void fail(struct end *a, struct end *b)
{
	struct ibv_mr wrong = *b->mr;
	struct end target = *b;
	wrong.rkey ^= 0xff;
	target.mr = &wrong;
	CHECK(!post(a, IBV_WR_RDMA_WRITE, &target, 8, 1));
	CHECK(completion(a->cq).status == IBV_WC_REM_ACCESS_ERR);
}

static void async(void)
{
	struct end ends[6];
	pthread_t thread;
	for (int i = 0; i < 6; i += 2) {
		pair_on(context, &ends[i], &ends[i + 1]);
		fail(&ends[i], &ends[i + 1]);
	}
	/* The event of the first is never read, and vanishes with its queue pair. */
	CHECK(readable(context->async_fd, IN_TIME));
	free_end(&ends[0]);
	free_end(&ends[1]);
	for (int i = 3; i < 6; i += 2) {
		CHECK(!ibv_get_async_event(context, &last));
		CHECK(last.event_type == IBV_EVENT_QP_ACCESS_ERR && last.element.qp == ends[i].qp);
		acked = 0;
		CHECK(!pthread_create(&thread, NULL, ack_later, NULL));
		CHECK(!ibv_destroy_qp(ends[i].qp) && acked > 0 && now() >= acked);
		CHECK(!pthread_join(thread, NULL));
	}
	CHECK(!readable(context->async_fd, MOMENT));
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	CHECK(context = open_device());
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"nonblocking", nonblocking}, {"many", many}, {"replaced", replaced},
		     {"full", full},		   {"acks", acks}, {"async", async}};
	bool found = false;
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			found = true;
		}
	CHECK(found);
	CHECK(!ibv_close_device(context));
	puts("ok");
	return 0;
}
