/*
 * Memory that is unmapped while it is registered. The argument selects which end's memory, the
 * operation and who receives: a thread that polls, one that waits for events, or the standby thread.
 */
#include "pair.h"

#include <signal.h>

static void unexpected(int sig)
{
	(void)sig;
	static const char text[] = "the program's handler ran\n";
	_exit(write(2, text, sizeof text) ? 3 : 4);
}

/* wait gets the next completion, as the case wants it. */
static struct ibv_wc next(struct end *e, const char *how)
{
	struct ibv_cq *cq;
	void *context;
	if (!strcmp(how, "event")) {
		CHECK(!ibv_req_notify_cq(e->cq, 0));
		struct ibv_wc wc;
		int n = ibv_poll_cq(e->cq, 1, &wc);
		if (n == 1)
			return wc;
		CHECK(!ibv_get_cq_event(e->channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
	} else if (!strcmp(how, "standby")) {
		usleep(200000); /* nobody drives: the standby thread and the timers must do it all */
	}
	return completion(e->cq);
}

static const struct {
	const char *name;
	enum ibv_wr_opcode op;
	bool receives, local, remote; /* which memory is gone */
	enum ibv_wc_status sender, receiver;
} cases[] = {
	{"send", IBV_WR_SEND, true, true, false, IBV_WC_LOC_PROT_ERR, 0},
	{"write", IBV_WR_RDMA_WRITE, false, true, false, IBV_WC_LOC_PROT_ERR, 0},
	{"read-into", IBV_WR_RDMA_READ, false, true, false, IBV_WC_LOC_PROT_ERR, 0},
	{"receive", IBV_WR_SEND, true, false, true, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR},
	{"write-to", IBV_WR_RDMA_WRITE, false, false, true, IBV_WC_REM_ACCESS_ERR, 0},
	{"read", IBV_WR_RDMA_READ, false, false, true, IBV_WC_REM_ACCESS_ERR, 0},
	{"atomic", IBV_WR_ATOMIC_FETCH_AND_ADD, false, false, true, IBV_WC_REM_ACCESS_ERR, 0},
	{"atomic-into", IBV_WR_ATOMIC_FETCH_AND_ADD, false, true, false, IBV_WC_LOC_PROT_ERR, 0},
};

/* try unmaps the memory, from a page on, and runs the operation of a case on two new ends. */
static void try(struct ibv_context *context, size_t i, const char *how, bool half)
{
	struct end a, b;
	pair_on(context, &a, &b);
	uint32_t length = cases[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : LENGTH;
	if (length == 8 && half)
		return;
	for (int k = 0; k < 2; k++)
		if (k ? cases[i].remote : cases[i].local) {
			uint8_t *buf = k ? b.buf : a.buf;
			unmap(buf + (half ? LENGTH / 2 : 0), LENGTH / (half ? 2 : 1));
		}
	if (cases[i].receives)
		CHECK(!post_recv(&b, 1));
	CHECK(!post(&a, cases[i].op, &b, length, 2));
	struct ibv_wc wc = next(&a, how);
	if (wc.status != cases[i].sender)
		fprintf(stderr, "%s: the sender has %s\n", cases[i].name, ibv_wc_status_str(wc.status));
	CHECK(wc.status == cases[i].sender && wc.wr_id == 2);
	if (cases[i].receiver) {
		wc = next(&b, how);
		if (wc.status != cases[i].receiver)
			fprintf(stderr, "%s: the receiver has %s\n", cases[i].name, ibv_wc_status_str(wc.status));
		CHECK(wc.status == cases[i].receiver && wc.wr_id == 1);
	}
	CHECK(!ibv_destroy_qp(a.qp) && !ibv_destroy_qp(b.qp));
	CHECK(!ibv_dereg_mr(a.mr) && !ibv_dereg_mr(b.mr));
	CHECK(!ibv_destroy_cq(a.cq) && !ibv_destroy_cq(b.cq));
}

/* A timer sends once more what has been unmapped since: no receive is posted, then the peer is gone. */
static void timers(struct ibv_context *context)
{
	for (int gone = 0; gone < 2; gone++) {
		struct end a, b;
		pair_on(context, &a, &b);
		if (gone)
			CHECK(!ibv_destroy_qp(b.qp));
		CHECK(!post(&a, IBV_WR_SEND, &b, LENGTH, 2));
		unmap(a.buf, LENGTH);
		struct ibv_wc wc = completion(a.cq);
		if (wc.status != IBV_WC_LOC_PROT_ERR)
			fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
		CHECK(wc.status == IBV_WC_LOC_PROT_ERR);
	}
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	signal(SIGSEGV, unexpected);
	signal(SIGBUS, unexpected);
	struct ibv_context *context = open_device();
	if (!strcmp(argv[1], "timers"))
		timers(context);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		try(context, i, argv[1], false);
		try(context, i, argv[1], true);
	}
	struct end a, b;
	pair_on(context, &a, &b);
	exchange(&a, &b, 100); /* the device goes on */
	puts("ok");
	return 0;
}
