/*
 * The other way to post: the ibv_wr_* calls, by which a provider builds its requests
 * in place, with no struct ibv_send_wr to read. Go encodes a batch as for the classic
 * way, and this walks it, so that a batch stays one call into C.
 */

#ifndef RAWVERBS_IBV_BUILDER_H
#define RAWVERBS_IBV_BUILDER_H

#include "ibv_shim.h"

/* rv_create_qp_ex makes a queue pair that has the calls for the operations of its
 * type; an errno if the provider has not all of them. ATOMIC WRITE may be missing:
 * *atomic_write says whether it is there. */
static inline int rv_create_qp_ex(struct ibv_pd *pd, struct ibv_qp_init_attr *attr, struct ibv_qp **out,
				  struct ibv_qp_ex **ex, int *atomic_write)
{
	struct ibv_qp_init_attr_ex init;

	memset(&init, 0, sizeof(init));
	init.send_cq = attr->send_cq;
	init.recv_cq = attr->recv_cq;
	init.srq = attr->srq;
	init.cap = attr->cap;
	init.qp_type = attr->qp_type;
	init.sq_sig_all = attr->sq_sig_all;
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	init.pd = pd;
	init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	if (attr->qp_type != IBV_QPT_UD)
		init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
	if (attr->qp_type == IBV_QPT_RC)
		init.send_ops_flags |= IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				       IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;
	*atomic_write = attr->qp_type == IBV_QPT_RC;
	if (*atomic_write)
		init.send_ops_flags |= IBV_QP_EX_WITH_ATOMIC_WRITE;
	errno = 0;
	*out = ibv_create_qp_ex(pd->context, &init);
	if (!*out && *atomic_write && (errno == EOPNOTSUPP || errno == EINVAL)) {
		*atomic_write = 0;
		init.send_ops_flags &= ~(uint64_t)IBV_QP_EX_WITH_ATOMIC_WRITE;
		errno = 0;
		*out = ibv_create_qp_ex(pd->context, &init);
	}
	if (!*out)
		return rv_made(NULL);
	*ex = ibv_qp_to_qp_ex(*out);
	if (!*ex) {
		ibv_destroy_qp(*out);
		return EOPNOTSUPP;
	}
	attr->cap = init.cap;
	return 0;
}

/* rv_build_data says where a request's data is: all but READs and atomics may have
 * it inline. bufs has room for every element. */
static inline void rv_build_data(struct ibv_qp_ex *qp, const struct ibv_send_wr *wr, struct ibv_data_buf *bufs)
{
	int i;

	if (!(wr->send_flags & IBV_SEND_INLINE)) {
		if (wr->num_sge == 1)
			ibv_wr_set_sge(qp, wr->sg_list->lkey, wr->sg_list->addr, wr->sg_list->length);
		else
			ibv_wr_set_sge_list(qp, wr->num_sge, wr->sg_list);
		return;
	}
	for (i = 0; i < wr->num_sge; i++) {
		bufs[i].addr = (void *)(uintptr_t)wr->sg_list[i].addr;
		bufs[i].length = wr->sg_list[i].length;
	}
	if (wr->num_sge == 1)
		ibv_wr_set_inline_data(qp, bufs->addr, bufs->length);
	else
		ibv_wr_set_inline_data_list(qp, wr->num_sge, bufs);
}

/* rv_build_send posts a chain as rv_post_send does, but that it is taken or refused whole,
 * by the name of its first request. It is never posted again in the classic way: where the
 * doorbell failed, as rxe's does, the provider has taken it. */
static inline int64_t rv_build_send(struct ibv_qp_ex *qp, struct ibv_send_wr *chain, struct ibv_data_buf *bufs,
				    int datagram)
{
	struct ibv_send_wr *wr;
	int ret;

	ibv_wr_start(qp);
	for (wr = chain; wr; wr = wr->next) {
		qp->wr_id = wr->wr_id;
		qp->wr_flags = wr->send_flags; /* with INLINE, which rxe's kernel half goes by */
		switch (wr->opcode) {
		case IBV_WR_SEND:
			ibv_wr_send(qp);
			break;
		case IBV_WR_SEND_WITH_IMM:
			ibv_wr_send_imm(qp, wr->imm_data);
			break;
		case IBV_WR_SEND_WITH_INV:
			ibv_wr_send_inv(qp, wr->invalidate_rkey);
			break;
		case IBV_WR_RDMA_WRITE:
			ibv_wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			ibv_wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_data);
			break;
		case IBV_WR_RDMA_READ:
			ibv_wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case IBV_WR_ATOMIC_CMP_AND_SWP:
			ibv_wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
					      wr->wr.atomic.compare_add, wr->wr.atomic.swap);
			break;
		case IBV_WR_ATOMIC_FETCH_AND_ADD:
			ibv_wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr,
						wr->wr.atomic.compare_add);
			break;
		case IBV_WR_LOCAL_INV:
			if (!qp->wr_local_inv)
				goto classic;
			ibv_wr_local_inv(qp, wr->invalidate_rkey);
			continue; /* no data */
		case IBV_WR_BIND_MW:
			if (!qp->wr_bind_mw)
				goto classic;
			ibv_wr_bind_mw(qp, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
			continue;
		case IBV_WR_ATOMIC_WRITE: /* the encoder lets it pass where the call is there */
			ibv_wr_atomic_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr,
					    (void *)(uintptr_t)wr->sg_list->addr);
			continue; /* the call has copied the data */
		default: /* the encoder lets no other pass */
			ibv_wr_abort(qp);
			return rv_refused(0, EINVAL);
		classic: /* UC's calls do not have to have these two */
			ibv_wr_abort(qp);
			return rv_post_send(&qp->qp_base, chain);
		}
		if (datagram)
			ibv_wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
		rv_build_data(qp, wr, bufs);
	}
	ret = ibv_wr_complete(qp);
	return ret ? rv_refused(0, ret) : 0;
}

#endif
