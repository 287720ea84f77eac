/*
 * Objects that are not what they say: handles and contexts that the program has overwritten, lists
 * that do not exist, chains without an end. The argument selects a case.
 */
#include "pair.h"

/* FAILS checks that a call fails with an error, which is also in errno. */
#define FAILS(call, error) CHECK((errno = 0, (call) == (error)) && errno == (error))
#define NONE(call) CHECK((errno = 0, !(call)) && errno == EINVAL)

/*
 * BOTH runs a check with two wrong handles: one that no object has, and one that another object of
 * the kind may have.
 */
#define BOTH(object, check)                                                             \
	do {                                                                            \
		uint32_t its = (object)->handle, wrong[] = {0xdeadbeef, its == 1 ? 2 : 1}; \
		for (int i = 0; i < 2; i++) {                                           \
			(object)->handle = wrong[i];                                    \
			check;                                                          \
		}                                                                       \
		(object)->handle = its;                                                 \
	} while (0)

struct all {
	struct end a, b;
	struct ibv_srq *srq;
	struct ibv_mw *mw[3]; /* the last has type 1 */
	struct ibv_ah *ah;
	struct ibv_ah_attr path;
};

static struct ibv_srq *make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	return ibv_create_srq(pd, &init);
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *send, struct ibv_cq *recv, struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = {.send_cq = send, .recv_cq = recv, .srq = srq, .qp_type = type, .sq_sig_all = 1,
					.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
	return ibv_create_qp(pd, &init);
}

static struct all make(struct ibv_context *context)
{
	struct all o = {.path = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 1}}};
	pair_on(context, &o.a, &o.b);
	ibv_dereg_mr(o.a.mr);
	CHECK(o.a.mr = ibv_reg_mr(o.a.pd, o.a.buf, LENGTH, ACCESS | IBV_ACCESS_MW_BIND));
	CHECK(!ibv_query_gid(context, 1, 1, &o.path.grh.dgid));
	CHECK(o.srq = make_srq(o.a.pd));
	for (int i = 0; i < 3; i++)
		CHECK(o.mw[i] = ibv_alloc_mw(o.a.pd, i < 2 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
	CHECK(o.ah = ibv_create_ah(o.a.pd, &o.path));
	return o;
}

/* destroy_all shows that every object is still there, and only once. */
static void destroy_all(struct all *o)
{
	CHECK(!ibv_destroy_ah(o->ah) && !ibv_destroy_srq(o->srq));
	for (int i = 0; i < 3; i++)
		CHECK(!ibv_dealloc_mw(o->mw[i]));
	free_end(&o->a);
	free_end(&o->b);
}

static void destroys(struct ibv_context *context)
{
	struct all o = make(context);
	BOTH(o.ah, FAILS(ibv_destroy_ah(o.ah), ENOENT));
	BOTH(o.mw[0], FAILS(ibv_dealloc_mw(o.mw[0]), ENOENT));
	BOTH(o.srq, FAILS(ibv_destroy_srq(o.srq), ENOENT));
	BOTH(o.a.qp, FAILS(ibv_destroy_qp(o.a.qp), ENOENT));
	BOTH(o.a.cq, FAILS(ibv_destroy_cq(o.a.cq), ENOENT));
	BOTH(o.a.mr, FAILS(ibv_dereg_mr(o.a.mr), ENOENT));
	BOTH(o.a.pd, FAILS(ibv_dealloc_pd(o.a.pd), ENOENT));
	destroy_all(&o);
}

static void calls(struct ibv_context *context)
{
	struct all o = make(context);
	struct ibv_pd *pd = o.a.pd;
	struct ibv_cq *cq = o.a.cq;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_srq_attr srq_attr = {.srq_limit = 1};
	struct ibv_parent_domain_init_attr parent = {.pd = pd};
	union ibv_gid gid = {.raw = {[10] = 0xff, 0xff, 224, 0, 0, 77}};
	struct ibv_sge sge = {(uintptr_t)o.a.buf, 8, o.a.mr->lkey};
	uint32_t number;
	BOTH(pd, NONE(ibv_reg_mr(pd, o.a.buf, PAGE, 0)));
	BOTH(pd, NONE(ibv_alloc_null_mr(pd)));
	BOTH(pd, NONE(ibv_alloc_mw(pd, IBV_MW_TYPE_1)));
	BOTH(pd, NONE(ibv_create_ah(pd, &o.path)));
	BOTH(pd, NONE(make_srq(pd)));
	BOTH(pd, NONE(make_qp(pd, cq, cq, NULL, IBV_QPT_RC)));
	BOTH(pd, NONE(ibv_alloc_parent_domain(context, &parent)));
	BOTH(pd, FAILS(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EINVAL));
	BOTH(cq, NONE(make_qp(pd, cq, o.b.cq, NULL, IBV_QPT_RC)));
	BOTH(cq, NONE(make_qp(pd, o.b.cq, cq, NULL, IBV_QPT_RC)));
	BOTH(cq, FAILS(ibv_resize_cq(cq, 100), EINVAL));
	BOTH(cq, FAILS(ibv_req_notify_cq(cq, 0), EINVAL));
	BOTH(o.srq, NONE(make_qp(pd, cq, cq, o.srq, IBV_QPT_RC)));
	BOTH(o.srq, FAILS(ibv_modify_srq(o.srq, &srq_attr, IBV_SRQ_LIMIT), EINVAL));
	BOTH(o.srq, FAILS(ibv_query_srq(o.srq, &srq_attr), EINVAL));
	BOTH(o.srq, FAILS(ibv_get_srq_num(o.srq, &number), EINVAL));
	BOTH(o.a.qp, FAILS(ibv_modify_qp(o.a.qp, &attr, IBV_QP_STATE), EINVAL));
	BOTH(o.a.qp, FAILS(ibv_query_qp(o.a.qp, &attr, IBV_QP_STATE, &init), EINVAL));
	BOTH(o.a.qp, FAILS(ibv_attach_mcast(o.a.qp, &gid, 0), EINVAL));
	BOTH(o.a.qp, FAILS(ibv_detach_mcast(o.a.qp, &gid, 0), EINVAL));
	BOTH(o.a.mr, CHECK(ibv_rereg_mr(o.a.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) == IBV_REREG_MR_ERR_CMD && errno == EINVAL));
	BOTH(o.b.pd, CHECK(ibv_rereg_mr(o.a.mr, IBV_REREG_MR_CHANGE_PD, o.b.pd, NULL, 0, 0) == IBV_REREG_MR_ERR_CMD && errno == EINVAL));
	exchange(&o.a, &o.b, 8);
	destroy_all(&o);
}

/* Requests name objects, and the wrong handle does not matter: as on hardware, whose drivers do not look at it. */
static void requests(struct ibv_context *context)
{
	struct all o = make(context);
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.rkey = 5, .bind_info = {.mr = o.a.mr, .addr = (uintptr_t)o.a.buf, .length = 64}}};
	int next = 0;
	BOTH(o.a.mr, wr.bind_mw.mw = o.mw[next++]; CHECK(!ibv_post_send(o.a.qp, &wr, &bad) && completion(o.a.cq).status == IBV_WC_SUCCESS));
	struct ibv_mw_bind bind = {.bind_info = wr.bind_mw.bind_info};
	BOTH(o.mw[2], CHECK(!ibv_bind_mw(o.a.qp, o.mw[2], &bind) && completion(o.a.cq).status == IBV_WC_SUCCESS));
	BOTH(o.a.qp, exchange(&o.a, &o.b, 8));
	BOTH(o.a.cq, exchange(&o.a, &o.b, 8));
	struct ibv_mw *mw = ibv_alloc_mw(o.a.pd, IBV_MW_TYPE_2);
	CHECK(mw);
	mw->handle = 0xdeadbeef;
	wr.bind_mw.mw = mw;
	CHECK(!ibv_post_send(o.a.qp, &wr, &bad) && completion(o.a.cq).status == IBV_WC_SUCCESS);
	CHECK(ibv_dealloc_mw(mw) == ENOENT);

	struct ibv_qp *ud = make_qp(o.a.pd, o.a.cq, o.a.cq, NULL, IBV_QPT_UD);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7};
	CHECK(ud && !ibv_modify_qp(ud, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(ud, &a, IBV_QP_STATE));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(ud, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .wr.ud = {o.ah, ud->qp_num, 7}};
	BOTH(o.ah, CHECK(!ibv_post_send(ud, &send, &bad) && completion(o.a.cq).status == IBV_WC_SUCCESS));
	CHECK(!ibv_destroy_qp(ud));
}

/* An object of one context whose ->context is another. */
static void contexts(struct ibv_context *context)
{
	struct ibv_context *other = open_device();
	struct all o = make(context);
	o.a.pd->context = o.a.cq->context = o.a.qp->context = o.a.mr->context = o.ah->context = o.srq->context = o.mw[0]->context = other;
	FAILS(ibv_destroy_ah(o.ah), ENOENT);
	FAILS(other->ops.dealloc_mw(o.mw[0]), ENOENT);
	FAILS(ibv_destroy_srq(o.srq), ENOENT);
	FAILS(ibv_destroy_qp(o.a.qp), ENOENT);
	FAILS(ibv_destroy_cq(o.a.cq), ENOENT);
	FAILS(ibv_dereg_mr(o.a.mr), ENOENT);
	FAILS(ibv_dealloc_pd(o.a.pd), ENOENT);
	NONE(ibv_reg_mr(o.a.pd, o.a.buf, PAGE, 0));
	o.a.pd->context = o.a.cq->context = o.a.qp->context = o.a.mr->context = o.ah->context = o.srq->context = o.mw[0]->context = context;
	destroy_all(&o);
	CHECK(!ibv_close_device(other));
}

/* Only the opening of a device that made an object can import it, as in the kernel. */
static void imports(struct ibv_context *context)
{
	struct ibv_context *other = open_device(), *same = ibv_import_device(dup(context->cmd_fd));
	struct end e = end_on(context);
	CHECK(other && same);
	CHECK(!ibv_import_pd(other, e.pd->handle) && errno == ENOENT);
	struct ibv_pd *foreign = ibv_alloc_pd(other), *pd = ibv_import_pd(same, e.pd->handle);
	CHECK(foreign && pd);
	CHECK(!ibv_import_mr(foreign, e.mr->handle) && errno == ENOENT);
	struct ibv_mr *mr = ibv_import_mr(pd, e.mr->handle);
	CHECK(mr);
	CHECK(!ibv_close_device(other));
	struct ibv_mr *mine = ibv_reg_mr(pd, e.buf, LENGTH, ACCESS); /* the domain is there until it is freed */
	CHECK(mine && !ibv_dereg_mr(mine));
	CHECK(!ibv_dereg_mr(mr)); /* frees the region */
	FAILS(ibv_dereg_mr(e.mr), ENOENT);
	CHECK(ibv_rereg_mr(e.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) && errno == ENOENT);
	ibv_unimport_pd(e.pd); /* it is no import: nothing happens */
	CHECK(ibv_dealloc_pd(e.pd) == EBUSY && pd);
}

static void chains(struct ibv_context *context)
{
	struct all o = make(context);
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv, nowhere = {.num_sge = 1};
	struct ibv_send_wr send = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE}, *bad, none = {.num_sge = 1, .opcode = IBV_WR_SEND};
	recv.next = &nowhere;
	FAILS(ibv_post_recv(o.b.qp, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &nowhere);
	FAILS(ibv_post_srq_recv(o.srq, &recv, &bad_recv), EINVAL);
	CHECK(bad_recv == &nowhere);
	send.next = &none;
	FAILS(ibv_post_send(o.a.qp, &send, &bad), EINVAL);
	CHECK(bad == &none && completion(o.a.cq).wr_id == 2);
	FAILS(ibv_advise_mr(o.a.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 1), EINVAL);

	recv.next = &recv;
	FAILS(ibv_post_recv(o.b.qp, &recv, &bad_recv), ENOMEM);
	CHECK(bad_recv == &recv);
	FAILS(ibv_post_srq_recv(o.srq, &recv, &bad_recv), ENOMEM);
	CHECK(bad_recv == &recv);
	send.next = &send;
	FAILS(ibv_post_send(o.a.qp, &send, &bad), ENOMEM);
	CHECK(bad == &send);
	for (int i = 0; i < DEPTH; i++)
		CHECK(completion(o.a.cq).status == IBV_WC_SUCCESS);
	destroy_all(&o);
}

int main(int argc, char **argv)
{
	static const struct named cases[] = {{"destroys", destroys}, {"calls", calls}, {"requests", requests}, {"contexts", contexts}, {"imports", imports}, {"chains", chains}};
	return run_named(argc, argv, cases, sizeof cases / sizeof *cases);
}
