//go:build linux && cgo && !nolibibverbs

/* See ibv_hot.h. */
#include "ibv_builder.h"
#include "ibv_hot.h"

RV_HOT(post_send)
{
	args->result = rv_post_send((struct ibv_qp *)args->a, (struct ibv_send_wr *)args->b);
}

RV_HOT(build_send)
{
	args->result = rv_build_send((struct ibv_qp_ex *)args->a, (struct ibv_send_wr *)args->b, (struct ibv_data_buf *)args->c, args->d);
}

RV_HOT(post_recv)
{
	args->result = rv_post_recv((struct ibv_qp *)args->a, (struct ibv_recv_wr *)args->b);
}

RV_HOT(post_srq_recv)
{
	args->result = rv_post_srq_recv((struct ibv_srq *)args->a, (struct ibv_recv_wr *)args->b);
}

RV_HOT(poll_cq)
{
	args->result = rv_poll_cq((struct ibv_cq *)args->a, args->b, args->c, args->p);
}

RV_HOT(poll_cq_ex)
{
	args->result = rv_poll_cq_ex((struct ibv_cq *)args->a, args->b, args->c, args->d, args->p);
}

RV_HOT(req_notify_cq)
{
	args->result = rv_req_notify_cq((struct ibv_cq *)args->a, args->b);
}

RV_HOT(get_cq_events)
{
	args->result = rv_get_cq_events((struct ibv_comp_channel *)args->a, args->b, args->p);
}
