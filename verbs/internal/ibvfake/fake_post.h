/*
 * Posting with ibv_post_send, ibv_post_recv and ibv_post_srq_recv. Each chain is recorded;
 * refuse_at selects a request to refuse.
 */
#ifndef RAWVERBS_IBVFAKE_POST_H
#define RAWVERBS_IBVFAKE_POST_H

// fake_wait waits until the test releases it, or for the limit.
static void fake_wait(struct fake *f)
{
	struct timespec ms = {0, 1000000};
	int i;

	__atomic_store_n(&f->waiting, 1, __ATOMIC_RELEASE);
	for (i = 0; i < f->wait_ms && __atomic_load_n(&f->waiting, __ATOMIC_ACQUIRE); i++)
		nanosleep(&ms, NULL);
	__atomic_store_n(&f->waiting, 0, __ATOMIC_RELEASE);
}

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake *f = (struct fake *)qp->qp_context;
	int i = 0;

	f->posts++;
	if (f->wait_ms)
		fake_wait(f);
	for (; wr; wr = wr->next, i++) {
		if (i == f->refuse_at) {
			*bad = wr;
			return f->errnum;
		}
		if (qp->qp_type == IBV_QPT_UD && !wr->wr.ud.ah->handle)
			f->lost++;
		if (i < 4) {
			f->last_send[i] = *wr;
			if (wr->num_sge)
				f->last_sge[i] = wr->sg_list[0];
		}
		f->wrs++;
	}
	if (f->refuse_at == -2) { // as libibverbs' rxe provider does
		*bad = NULL;
		return f->errnum;
	}
	return 0;
}

static int fake_recv(struct fake *f, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int i = 0;

	f->posts++;
	for (; wr; wr = wr->next, i++) {
		if (i == f->refuse_at) {
			*bad = wr;
			return f->errnum;
		}
		if (i < 4) {
			f->last_recv[i] = *wr;
			if (wr->num_sge)
				f->last_sge[i] = wr->sg_list[0];
		}
		f->wrs++;
	}
	return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return fake_recv((struct fake *)qp->qp_context, wr, bad);
}

static int fake_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return fake_recv((struct fake *)srq->srq_context, wr, bad);
}

// fake_loop_send is the loop that benchmarks compare a post from Go with: the same work
// without calls from Go into C.
static void fake_loop_send(struct fake *f, struct ibv_send_wr *wr, long n)
{
	struct ibv_send_wr *bad;

	while (n-- > 0)
		ibv_post_send(&f->ex.qp_base, wr, &bad);
}

// fake_cross does nothing. It shows the cost of a call from Go into C.
static void fake_cross(struct fake *f)
{
	(void)f;
}

#endif
