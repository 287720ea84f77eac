//go:build linux && cgo

/* See ibv_hot.h. */
#include "ibv_builder.h"
#include "ibv_hot.h"

RV_HOT(post_send)
{
	return rv_post_send((struct ibv_qp *)a, (struct ibv_send_wr *)b);
}

RV_HOT(build_send)
{
	return rv_build_send((struct ibv_qp_ex *)a, (struct ibv_send_wr *)b, (struct ibv_data_buf *)c, d);
}

RV_HOT(post_recv)
{
	return rv_post_recv((struct ibv_qp *)a, (struct ibv_recv_wr *)b);
}

RV_HOT(post_srq_recv)
{
	return rv_post_srq_recv((struct ibv_srq *)a, (struct ibv_recv_wr *)b);
}

RV_HOT(poll_cq)
{
	return rv_poll_cq((struct ibv_cq *)a, b, c, p);
}

RV_HOT(poll_cq_ex)
{
	return rv_poll_cq_ex((struct ibv_cq *)a, b, c, d, p);
}

RV_HOT(req_notify_cq)
{
	return rv_req_notify_cq((struct ibv_cq *)a, b);
}

RV_HOT(get_cq_events)
{
	return rv_get_cq_events((struct ibv_comp_channel *)a, b, p);
}
