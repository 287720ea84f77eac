/*
 * Queue pairs and shared receive queues.
 */
#include "shim.h"

static struct qp *qp_new(struct ibv_pd *pd, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, struct ibv_srq *srq,
			 enum ibv_qp_type type, int sq_sig_all, struct ibv_qp_cap *cap, void *qp_context)
{
	if (!pd || !send_cq || !recv_cq || send_cq->context != pd->context || recv_cq->context != pd->context || !GENUINE(cq, send_cq) ||
	    !GENUINE(cq, recv_cq) || (srq && !GENUINE(srq, srq)))
		return null(EINVAL);
	struct qp *qp = calloc(1, sizeof *qp);
	if (!qp)
		return NULL;
	struct ibv_qp *v = &qp->verbs.qp_base;
	int error = CALL_OF(pd, pd, EINVAL, rv_create_qp, send_cq->handle, recv_cq->handle, srq ? srq->handle : 0, type, sq_sig_all, cap,
			    (uintptr_t)qp, &qp->handle, &v->qp_num);
	if (error)
		return undone(qp, error);
	qp->context = context_of(pd->context);
	qp->sq_sig_all = sq_sig_all;
	v->context = pd->context;
	v->qp_context = qp_context;
	v->pd = pd;
	v->send_cq = send_cq;
	v->recv_cq = recv_cq;
	v->srq = srq;
	v->handle = qp->handle;
	v->state = IBV_QPS_RESET;
	v->qp_type = type;
	pthread_mutex_init(&v->mutex, NULL);
	pthread_cond_init(&v->cond, NULL);
	pd_hold(pd);
	return qp;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	UNLESS_OURS(pd->context, ibv_create_qp, pd, attr);
	struct qp *qp = qp_new(pd, attr->send_cq, attr->recv_cq, attr->srq, attr->qp_type, attr->sq_sig_all, &attr->cap, attr->qp_context);
	return qp ? &qp->verbs.qp_base : NULL;
}

struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	bool builds = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (attr->comp_mask & ~known || (attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS && attr->create_flags) ||
	    (builds && !builder_can(attr->qp_type, attr->send_ops_flags)))
		return null(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || attr->pd->context != context)
		return null(EINVAL);
	if (builds && attr->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE && attr->cap.max_inline_data < ATOMIC_LENGTH)
		attr->cap.max_inline_data = ATOMIC_LENGTH;
	struct qp *qp = qp_new(attr->pd, attr->send_cq, attr->recv_cq, attr->srq, attr->qp_type, attr->sq_sig_all, &attr->cap,
			       attr->qp_context);
	if (!qp)
		return NULL;
	if (builds) {
		int error = builder_init(qp, &attr->cap);
		if (error) {
			ibv_destroy_qp(&qp->verbs.qp_base);
			return null(error);
		}
	}
	return &qp->verbs.qp_base;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *v)
{
	UNLESS_OURS(v->context, ibv_qp_to_qp_ex, v);
	struct qp *qp = (struct qp *)v;
	return qp->builder ? &qp->verbs : NULL;
}

/* qp_forget takes the completions of a queue pair out of its CQs, as the drivers of hardware do. */
static void qp_forget(struct ibv_qp *v)
{
	cq_forget((struct cq *)v->send_cq, v->qp_num);
	if (v->recv_cq != v->send_cq)
		cq_forget((struct cq *)v->recv_cq, v->qp_num);
}

int ibv_destroy_qp(struct ibv_qp *v)
{
	UNLESS_OURS(v->context, ibv_destroy_qp, v);
	struct qp *qp = (struct qp *)v;
	int error = CALL_OF(qp, v, ENOENT, rv_destroy_qp);
	if (error)
		return error;
	qp_forget(v);
	async_forget(qp->context, qp);
	await_acks(&v->mutex, &v->cond, &v->events_completed, &qp->reported);
	builder_free(qp);
	pd_release(v->pd);
	free(qp);
	return 0;
}

int ibv_modify_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask)
{
	UNLESS_OURS(v->context, ibv_modify_qp, v, attr, mask);
	int error = CALL_OF(qp, v, EINVAL, rv_modify_qp, attr, mask);
	if (!error && mask & IBV_QP_STATE) {
		__atomic_store_n(&v->state, attr->qp_state, __ATOMIC_RELAXED);
		if (attr->qp_state == IBV_QPS_RESET)
			qp_forget(v);
	}
	return error;
}

int ibv_query_qp(struct ibv_qp *v, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	UNLESS_OURS(v->context, ibv_query_qp, v, attr, mask, init);
	int error = CALL_OF(qp, v, EINVAL, rv_query_qp, attr, mask);
	if (error)
		return error;
	__atomic_store_n(&v->state, attr->qp_state, __ATOMIC_RELAXED);
	*init = (struct ibv_qp_init_attr){.qp_context = v->qp_context, .send_cq = v->send_cq, .recv_cq = v->recv_cq, .srq = v->srq,
					  .cap = attr->cap, .qp_type = v->qp_type, .sq_sig_all = ((struct qp *)v)->sq_sig_all};
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *v, enum ibv_wr_opcode op, uint32_t flags)
{
	UNLESS_OURS(v->context, ibv_query_qp_data_in_order, v, op, flags);
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *v, const union ibv_gid *gid, uint16_t lid)
{
	UNLESS_OURS(v->context, ibv_attach_mcast, v, gid, lid);
	return CALL_OF(qp, v, EINVAL, rv_attach_mcast, (union ibv_gid *)gid, lid);
}

int ibv_detach_mcast(struct ibv_qp *v, const union ibv_gid *gid, uint16_t lid)
{
	UNLESS_OURS(v->context, ibv_detach_mcast, v, gid, lid);
	return CALL_OF(qp, v, EINVAL, rv_detach_mcast, (union ibv_gid *)gid, lid);
}

int post_send(struct ibv_qp *v, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = (struct qp *)v;
	struct ibv_send_wr *refused = wr;
	int error = CALL(qp->context, rv_post_send, qp->handle, wr, &refused);
	if (error)
		*bad = refused;
	return error;
}

int post_recv(struct ibv_qp *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = (struct qp *)v;
	struct ibv_recv_wr *refused = wr;
	int error = CALL(qp->context, rv_post_recv, qp->handle, wr, &refused);
	if (error)
		*bad = refused;
	return error;
}

static struct ibv_srq *srq_new(struct ibv_pd *pd, struct ibv_srq_attr *attr, void *srq_context)
{
	struct srq *srq = calloc(1, sizeof *srq);
	if (!srq)
		return NULL;
	int error = CALL_OF(pd, pd, EINVAL, rv_create_srq, attr, (uintptr_t)srq, &srq->handle);
	if (error)
		return undone(srq, error);
	srq->context = context_of(pd->context);
	struct ibv_srq *v = &srq->verbs;
	v->context = pd->context;
	v->srq_context = srq_context;
	v->pd = pd;
	v->handle = srq->handle;
	pthread_mutex_init(&v->mutex, NULL);
	pthread_cond_init(&v->cond, NULL);
	pd_hold(pd);
	return v;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	UNLESS_OURS(pd->context, ibv_create_srq, pd, attr);
	return srq_new(pd, &attr->attr, attr->srq_context);
}

struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
	const uint32_t known = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
	if (attr->comp_mask & ~known || (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE && attr->srq_type != IBV_SRQT_BASIC))
		return null(EOPNOTSUPP);
	if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || attr->pd->context != context)
		return null(EINVAL);
	return srq_new(attr->pd, &attr->attr, attr->srq_context);
}

int get_srq_num(struct ibv_srq *v, uint32_t *number)
{
	return CALL_OF(srq, v, EINVAL, rv_srq_number, number);
}

int ibv_modify_srq(struct ibv_srq *v, struct ibv_srq_attr *attr, int mask)
{
	UNLESS_OURS(v->context, ibv_modify_srq, v, attr, mask);
	return CALL_OF(srq, v, EINVAL, rv_modify_srq, attr, mask);
}

int ibv_query_srq(struct ibv_srq *v, struct ibv_srq_attr *attr)
{
	UNLESS_OURS(v->context, ibv_query_srq, v, attr);
	return CALL_OF(srq, v, EINVAL, rv_query_srq, attr);
}

int ibv_destroy_srq(struct ibv_srq *v)
{
	UNLESS_OURS(v->context, ibv_destroy_srq, v);
	int error = CALL_OF(srq, v, ENOENT, rv_destroy_srq);
	if (error)
		return error;
	pd_release(v->pd);
	async_forget(((struct srq *)v)->context, v);
	await_acks(&v->mutex, &v->cond, &v->events_completed, &((struct srq *)v)->reported);
	free(v);
	return 0;
}

int post_srq_recv(struct ibv_srq *v, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *srq = (struct srq *)v;
	struct ibv_recv_wr *refused = wr;
	int error = CALL(srq->context, rv_post_srq_recv, srq->handle, wr, &refused);
	if (error)
		*bad = refused;
	return error;
}

/* The software device has no enhanced connection establishment. */
int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	UNLESS_OURS(qp->context, ibv_query_ece, qp, ece);
	memset(ece, 0, sizeof *ece);
	return failed(EOPNOTSUPP);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return ours(qp->context) ? failed(EOPNOTSUPP) : REAL(ibv_set_ece)(qp, ece);
}
