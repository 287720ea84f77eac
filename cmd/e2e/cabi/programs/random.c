/*
 * Calls the verbs with random arguments: random SEED CALLS. Pointers are valid, everything else may be
 * anything. A call may fail with an errno or succeed; the device must work afterwards.
 */
#include "pair.h"

#include <fcntl.h>

static uint64_t state;

static uint64_t any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t below(uint64_t n) { return any() % n; }

/* value returns a small number, a limit, or any number. */
static uint64_t value(void)
{
	static const uint64_t limits[] = {0, 1, 2, 0x7f, 0xff, 0x7fff, 0xffff, 0xffffff, 0x7fffffff, 0xffffffff, INT64_MAX, UINT64_MAX};
	switch (below(3)) {
	case 0: return below(20);
	case 1: return limits[below(sizeof limits / sizeof *limits)];
	default: return any();
	}
}

/* bits returns a few of the lowest n bits, and seldom any. */
static uint32_t bits(int n) { return below(8) ? any() & any() & ((1u << n) - 1) : any(); }

enum { ENDS = 4 };
static struct ibv_context *context;
static struct end ends[ENDS];
static struct ibv_qp *datagrams; /* a UD queue pair in RTS */
static struct ibv_ah *ah;
static struct ibv_srq *srq;
static struct ibv_mw *mw;

static struct end *an_end(void) { return &ends[below(ENDS)]; }
static struct ibv_qp *a_qp(void) { return below(4) ? an_end()->qp : datagrams; }

/* garbage fills a struct: with nothing, small numbers, or anything. */
static void garbage(void *at, size_t length)
{
	uint64_t kind = below(3);
	for (size_t i = 0; i < length; i++)
		((uint8_t *)at)[i] = kind == 0 ? 0 : kind == 1 ? below(5) * !below(4) : any();
}

/* calls and refusals count, so that a program whose calls all fail is noticed. */
static long calls, refusals;
static void said(int error)
{
	calls++;
	refusals += error != 0;
	if (error < 0 || error > 200) {
		fprintf(stderr, "an errno is %d\n", error);
		_exit(1);
	}
}

static void *made(void *object)
{
	calls++;
	if (!object) {
		refusals++;
		CHECK(errno > 0);
	}
	return object;
}

enum { SGES = 5 };
static int fill(struct ibv_sge *sges)
{
	for (int i = 0; i < SGES; i++) {
		struct end *e = an_end();
		sges[i] = (struct ibv_sge){.addr = (uintptr_t)e->buf + (below(4) ? below(LENGTH) : value()), .length = below(4) ? below(LENGTH) : value(),
					   .lkey = below(8) ? e->mr->lkey : value()};
	}
	return below(16) ? (int)below(3) : (int)below(2 * SGES) - SGES;
}

static void send_something(void)
{
	struct ibv_sge sges[3][SGES];
	struct ibv_send_wr wrs[3], *bad = NULL;
	int n = 1 + below(3);
	for (int i = 0; i < n; i++) {
		struct end *other = an_end();
		garbage(&wrs[i], sizeof wrs[i]);
		wrs[i].opcode = below(8) ? below(12) : value();
		wrs[i].send_flags = bits(5);
		wrs[i].num_sge = fill(sges[i]);
		if (wrs[i].num_sge > SGES)
			wrs[i].num_sge = SGES;
		wrs[i].sg_list = sges[i];
		wrs[i].next = i + 1 < n ? &wrs[i + 1] : NULL;
		if (wrs[i].opcode == IBV_WR_BIND_MW) {
			wrs[i].bind_mw.mw = mw;
			wrs[i].bind_mw.bind_info.mr = other->mr;
		} else if (wrs[i].opcode == IBV_WR_TSO) {
			wrs[i].tso.hdr = other->buf;
			wrs[i].tso.hdr_sz = below(64);
		} else if (wrs[i].opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD && below(2)) {
			wrs[i].wr.atomic.remote_addr = (uintptr_t)other->buf + below(LENGTH);
			wrs[i].wr.atomic.rkey = below(8) ? other->mr->rkey : value();
		}
	}
	struct ibv_qp *qp = a_qp();
	if (qp == datagrams)
		for (int i = 0; i < n; i++)
			wrs[i].wr.ud.ah = below(8) ? ah : NULL;
	/* Inline data is read when it is posted, from any address in a real device too. */
	for (int i = 0; i < n; i++)
		if (wrs[i].send_flags & IBV_SEND_INLINE)
			for (int s = 0; s < SGES; s++)
				sges[i][s].addr = (uintptr_t)ends[0].buf, sges[i][s].length = below(512);
	said(ibv_post_send(qp, wrs, &bad));
}

static void receive_something(void)
{
	struct ibv_sge sges[SGES];
	struct ibv_recv_wr wr = {.wr_id = any(), .sg_list = sges}, *bad = NULL;
	wr.num_sge = fill(sges);
	if (wr.num_sge > SGES)
		wr.num_sge = SGES;
	said(below(3) ? ibv_post_recv(a_qp(), &wr, &bad) : ibv_post_srq_recv(srq, &wr, &bad));
}

/* modify asks for a legal move half of the time, so that queue pairs leave RESET again. */
static void modify(void)
{
	struct ibv_qp_attr attr;
	garbage(&attr, sizeof attr);
	struct end *e = an_end();
	switch (below(4)) {
	case 0:
		attr.qp_state = IBV_QPS_RESET;
		said(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE));
		/* What the old peer still sends may be an error, after which the queue pair is in ERR. */
		said(try_connect(e, context, an_end()->qp->qp_num));
		break;
	case 1:
		attr.qp_state = below(8);
		said(ibv_modify_qp(a_qp(), &attr, IBV_QP_STATE | bits(20)));
		break;
	default: said(ibv_modify_qp(a_qp(), &attr, bits(26)));
	}
}

static void memory(void)
{
	struct end *e = an_end();
	void *at = e->buf + (below(4) ? below(LENGTH) : 0);
	struct ibv_mr *mr = made(ibv_reg_mr(e->pd, at, below(2) ? below(LENGTH) : value(), bits(8)));
	if (!mr)
		return;
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = value(), .lkey = mr->lkey};
	int error = ibv_advise_mr(e->pd, below(4), bits(1), &sge, 1);
	said(error);
	error = ibv_rereg_mr(mr, below(8), e->pd, e->buf, below(LENGTH), bits(5));
	if (error < 0) /* the old region is gone, which is not an errno */
		error = EINVAL;
	said(error);
	said(ibv_dereg_mr(mr));
}

static void objects(void)
{
	struct end *e = an_end();
	struct ibv_qp_init_attr init;
	struct ibv_srq_init_attr srq_init;
	struct ibv_ah_attr to;
	switch (below(6)) {
	case 0: {
		struct ibv_cq *cq = made(ibv_create_cq(context, below(4) ? (int)below(1000) : (int)value(), NULL, below(2) ? e->channel : NULL, below(4) ? 0 : value()));
		if (cq)
			said(ibv_destroy_cq(cq));
		break;
	}
	case 1: {
		garbage(&init, sizeof init);
		init.send_cq = init.recv_cq = e->cq;
		init.srq = below(4) ? NULL : srq;
		init.qp_type = below(6) ? 2 + below(3) : value();
		struct ibv_qp *qp = made(ibv_create_qp(e->pd, &init));
		if (qp)
			said(ibv_destroy_qp(qp));
		break;
	}
	case 2: {
		garbage(&srq_init, sizeof srq_init);
		struct ibv_srq *other = made(ibv_create_srq(e->pd, &srq_init));
		if (other)
			said(ibv_destroy_srq(other));
		break;
	}
	case 3: {
		garbage(&to, sizeof to);
		if (below(2)) {
			to.is_global = to.port_num = 1;
			to.grh.sgid_index = below(3);
			CHECK(!ibv_query_gid(context, 1, 1, &to.grh.dgid));
		}
		struct ibv_ah *other = made(ibv_create_ah(e->pd, &to));
		if (other)
			said(ibv_destroy_ah(other));
		break;
	}
	case 4: said(ibv_resize_cq(e->cq, below(2) ? (int)(4 * DEPTH + below(100)) : (int)value())); break;
	default: {
		struct ibv_srq_attr attr = {.max_wr = value(), .max_sge = value(), .srq_limit = value()};
		said(ibv_modify_srq(srq, &attr, bits(3)));
	}
	}
}

static void look(void)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	struct ibv_wc wcs[32];
	__be16 pkey;
	switch (below(6)) {
	case 0: said(ibv_query_port(context, value(), &port)); break;
	case 1: said(ibv_query_gid(context, value(), value(), &gid) ? errno : 0); break;
	case 2: said(ibv_query_pkey(context, value(), value(), &pkey) ? errno : 0); break;
	case 3: said(ibv_query_qp(a_qp(), &attr, any(), &init)); break;
	case 4: CHECK(ibv_poll_cq(an_end()->cq, below(33), wcs) <= 32); break;
	default: said(ibv_req_notify_cq(an_end()->cq, value()));
	}
}

static void events(void)
{
	struct ibv_cq *cq;
	struct ibv_async_event event;
	void *its;
	if (!ibv_get_cq_event(an_end()->channel, &cq, &its))
		ibv_ack_cq_events(cq, 1);
	if (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
}

static void datagrams_make(void)
{
	struct ibv_qp_init_attr init = {.send_cq = ends[0].cq, .recv_cq = ends[0].cq, .qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 2, .max_recv_sge = 2, .max_inline_data = 64}};
	CHECK(datagrams = ibv_create_qp(ends[0].pd, &init));
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111};
	CHECK(!ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(datagrams, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(datagrams, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 1}};
	CHECK(!ibv_query_gid(context, 1, 1, &to.grh.dgid));
	CHECK(ah = ibv_create_ah(ends[0].pd, &to));
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15 + 1;
	context = open_device();
	CHECK(context);
	CHECK(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
	for (int i = 0; i < ENDS; i++) {
		ends[i] = end_on(context);
		CHECK(!fcntl(ends[i].channel->fd, F_SETFL, O_NONBLOCK));
	}
	for (int i = 0; i < ENDS; i++)
		connect_to(&ends[i], context, ends[i ^ 1].qp->qp_num);
	datagrams_make();
	struct ibv_srq_init_attr init = {.attr = {.max_wr = DEPTH, .max_sge = 2}};
	CHECK(srq = ibv_create_srq(ends[0].pd, &init));
	CHECK(mw = ibv_alloc_mw(ends[0].pd, IBV_MW_TYPE_2));

	static void (*const actions[])(void) = {send_something, send_something, send_something, receive_something, modify, memory, objects, look, look, events};
	for (long left = strtol(argv[2], NULL, 10); left > 0; left--)
		actions[below(sizeof actions / sizeof *actions)]();

	struct end a, b;
	pair_on(context, &a, &b);
	for (int i = 0; i < 10; i++)
		exchange(&a, &b, LENGTH);
	free_end(&a), free_end(&b);
	CHECK(!ibv_dealloc_mw(mw));
	CHECK(!ibv_destroy_ah(ah));
	CHECK(!ibv_destroy_qp(datagrams));
	CHECK(!ibv_destroy_srq(srq));
	for (int i = 0; i < ENDS; i++)
		free_end(&ends[i]);
	CHECK(!ibv_close_device(context));
	printf("ok: %ld calls, %ld refused\n", calls, refusals);
	return 0;
}
