/* What posting, polling and waiting call, of the one type that ccall.Call calls; the
 * functions of the same name in ibv_shim.h and ibv_builder.h say what each does. */
#ifndef RAWVERBS_IBV_HOT_H
#define RAWVERBS_IBV_HOT_H

#include "internal/ccall/ccall.h"

#define RV_HOT(name) void rv_hot_##name(struct ccall_args *args)

RV_HOT(post_send);     /* qp, chain */
RV_HOT(build_send);    /* qp_ex, chain, bufs, datagram */
RV_HOT(post_recv);     /* qp, chain */
RV_HOT(post_srq_recv); /* srq, chain */
RV_HOT(poll_cq);       /* cq, polls, max; wcs */
RV_HOT(poll_cq_ex);    /* cq, fields, alone, max; wcs */
RV_HOT(req_notify_cq); /* cq, solicited_only */
RV_HOT(get_cq_events); /* channel, max; cqs */

#endif
