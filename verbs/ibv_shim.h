/*
 * What Go calls: small functions over libibverbs, because cgo cannot call
 * macros (ibv_reg_mr, ibv_query_port) nor the inline functions that go through
 * the context's table of operations (ibv_post_send, ibv_poll_cq), and because
 * errno must come back in the same call.
 *
 * Functions that return int give 0 or a positive errno. Those that make an
 * object store it through their last argument.
 */
#ifndef RAWVERBS_IBV_SHIM_H
#define RAWVERBS_IBV_SHIM_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "ibv_names.h"

/* rv_made turns "pointer or NULL with errno" into 0 or errno. */
static inline int rv_made(const void *object)
{
	if (object)
		return 0;
	return errno ? errno : EIO;
}

/* rv_errno makes of libibverbs' two conventions one: some calls return -1 and
 * set errno, others return the errno itself. */
static inline int rv_errno(int ret)
{
	if (ret >= 0)
		return ret;
	return errno ? errno : EIO;
}

/* RV_ERRNO(f, parameters, arguments) defines rv_f, which returns what rv_errno makes of ibv_f's
 * result. RV_MADE does the same for an ibv_f that makes an object. */
#define RV_ERRNO(name, params, args) static inline int rv_##name params { return rv_errno(ibv_##name args); }
#define RV_MADE(name, params, args)      \
	static inline int rv_##name params   \
	{                                    \
		errno = 0;                       \
		*out = ibv_##name args;          \
		return rv_made(*out);            \
	}

static inline int rv_get_device_list(struct ibv_device ***list, int *n)
{
	errno = 0;
	*list = ibv_get_device_list(n);
	return rv_made(*list);
}

RV_MADE(open_device, (struct ibv_device *dev, struct ibv_context **out), (dev))
RV_ERRNO(close_device, (struct ibv_context *ctx), (ctx))
RV_ERRNO(query_device, (struct ibv_context *ctx, struct ibv_device_attr *attr), (ctx, attr))

static inline int rv_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	return rv_errno(ibv_query_port(ctx, port, attr));
}

RV_ERRNO(query_pkey, (struct ibv_context *ctx, uint8_t port, int index, uint16_t *pkey_be), (ctx, port, index, pkey_be))

/* rv_query_gid_table returns the number of filled slots, or a negative errno. */
static inline ssize_t rv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max)
{
	return ibv_query_gid_table(ctx, entries, max, 0);
}

RV_MADE(alloc_pd, (struct ibv_context *ctx, struct ibv_pd **out), (ctx))
RV_ERRNO(dealloc_pd, (struct ibv_pd *pd), (pd))
RV_MADE(create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *attr, struct ibv_ah **out), (pd, attr))
RV_ERRNO(destroy_ah, (struct ibv_ah *ah), (ah))
RV_MADE(create_comp_channel, (struct ibv_context *ctx, struct ibv_comp_channel **out), (ctx))
RV_ERRNO(destroy_comp_channel, (struct ibv_comp_channel *ch), (ch))

/* rv_get_cq_events reads and acknowledges up to max events of a non-blocking
 * channel into cqs. It returns how many, or a negative errno. Acknowledging here, in
 * the call that read them, is what lets ibv_destroy_cq never wait for a Go goroutine. */
static inline int rv_get_cq_events(struct ibv_comp_channel *ch, int max, struct ibv_cq **cqs)
{
	void *context;
	int n;

	for (n = 0; n < max; n++) {
		errno = 0;
		if (ibv_get_cq_event(ch, &cqs[n], &context))
			return n ? n : -(errno ? errno : EIO);
		ibv_ack_cq_events(cqs[n], 1);
	}
	return n;
}

static inline int rv_create_cq(struct ibv_context *ctx, int depth, struct ibv_comp_channel *ch, int vector,
			       struct ibv_cq **out)
{
	errno = 0;
	*out = ibv_create_cq(ctx, depth, NULL, ch, vector);
	return rv_made(*out);
}

/* rv_create_cq_ex makes an extended CQ, which is a struct ibv_cq too. */
static inline int rv_create_cq_ex(struct ibv_context *ctx, uint32_t depth, struct ibv_comp_channel *ch, uint32_t vector,
				  uint64_t fields, uint32_t flags, struct ibv_cq **out)
{
	struct ibv_cq_init_attr_ex attr;
	struct ibv_cq_ex *cq;

	memset(&attr, 0, sizeof(attr));
	attr.cqe = depth;
	attr.channel = ch;
	attr.comp_vector = vector;
	attr.wc_flags = fields;
	if (flags) {
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = flags;
	}
	errno = 0;
	cq = ibv_create_cq_ex(ctx, &attr);
	*out = cq ? ibv_cq_ex_to_cq(cq) : NULL;
	return rv_made(cq);
}

RV_ERRNO(resize_cq, (struct ibv_cq *cq, int depth), (cq, depth))

static inline int rv_moderate_cq(struct ibv_cq *cq, uint16_t count, uint16_t period_us)
{
	struct ibv_modify_cq_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.attr_mask = IBV_CQ_ATTR_MODERATE;
	attr.moderate.cq_count = count;
	attr.moderate.cq_period = period_us;
	return rv_errno(ibv_modify_cq(cq, &attr));
}

RV_ERRNO(destroy_cq, (struct ibv_cq *cq), (cq))
RV_ERRNO(req_notify_cq, (struct ibv_cq *cq, int solicited_only), (cq, solicited_only))

/* rv_poll_cq polls until something is there, at most polls times (1 or more). It returns
 * the number of completions, or a negative errno. */
static inline int rv_poll_cq(struct ibv_cq *cq, long polls, int max, struct ibv_wc *wcs)
{
	int n;

	errno = 0;
	do
		n = ibv_poll_cq(cq, max, wcs);
	while (n == 0 && --polls > 0);
	return n >= 0 ? n : -(errno ? errno : EIO);
}

/* A completion of an extended CQ: what struct ibv_wc has, and more. */
struct rv_wc_ex {
	struct ibv_wc wc;
	uint64_t timestamp;
	uint64_t wallclock_ns;
	uint32_t flow_tag;
	uint16_t cvlan;
};

/* rv_read_wc_ex reads the current completion: of a failed one only what the rules
 * say is valid. */
static inline void rv_read_wc_ex(struct ibv_cq_ex *cq, uint64_t fields, struct rv_wc_ex *out)
{
	memset(out, 0, sizeof(*out));
	out->wc.wr_id = cq->wr_id;
	out->wc.status = cq->status;
	out->wc.vendor_err = ibv_wc_read_vendor_err(cq);
	if (fields & IBV_WC_EX_WITH_QP_NUM)
		out->wc.qp_num = ibv_wc_read_qp_num(cq);
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)
		out->timestamp = ibv_wc_read_completion_ts(cq);
	if (fields & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
		out->wallclock_ns = ibv_wc_read_completion_wallclock_ns(cq);
	if (cq->status != IBV_WC_SUCCESS)
		return;
	out->wc.opcode = ibv_wc_read_opcode(cq);
	out->wc.wc_flags = ibv_wc_read_wc_flags(cq);
	if (fields & IBV_WC_EX_WITH_BYTE_LEN)
		out->wc.byte_len = ibv_wc_read_byte_len(cq);
	if (fields & IBV_WC_EX_WITH_IMM)
		out->wc.imm_data = ibv_wc_read_imm_data(cq);
	if (fields & IBV_WC_EX_WITH_SRC_QP)
		out->wc.src_qp = ibv_wc_read_src_qp(cq);
	if (fields & IBV_WC_EX_WITH_SLID)
		out->wc.slid = ibv_wc_read_slid(cq);
	if (fields & IBV_WC_EX_WITH_SL)
		out->wc.sl = ibv_wc_read_sl(cq);
	if (fields & IBV_WC_EX_WITH_DLID_PATH_BITS)
		out->wc.dlid_path_bits = ibv_wc_read_dlid_path_bits(cq);
	if (fields & IBV_WC_EX_WITH_CVLAN)
		out->cvlan = ibv_wc_read_cvlan(cq);
	if (fields & IBV_WC_EX_WITH_FLOW_TAG)
		out->flow_tag = ibv_wc_read_flow_tag(cq);
}

/* rv_poll_cq_ex is rv_poll_cq for a CQ made by rv_create_cq_ex with fields: a batch,
 * started, walked and ended. With alone each completion is a batch of its own: a
 * provider may walk wrongly. If the queue breaks on the way what was read before
 * counts, and the next call says why. */
static inline int rv_poll_cq_ex(struct ibv_cq *cq, uint64_t fields, int alone, int max, void *wcs)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };
	struct rv_wc_ex *out = wcs;
	int n = 0, ret = ibv_start_poll(ex, &attr);

	if (ret)
		return ret == ENOENT ? 0 : -rv_errno(ret);
	for (;;) {
		rv_read_wc_ex(ex, fields, &out[n++]);
		if (n == max)
			break;
		if (alone) {
			ibv_end_poll(ex);
			if (ibv_start_poll(ex, &attr))
				return n;
		} else if (ibv_next_poll(ex)) {
			break;
		}
	}
	ibv_end_poll(ex);
	return n;
}

RV_MADE(create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *attr, struct ibv_srq **out), (pd, attr))
RV_ERRNO(modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask), (srq, attr, mask))
RV_ERRNO(query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *attr), (srq, attr))
RV_ERRNO(get_srq_num, (struct ibv_srq *srq, uint32_t *n), (srq, n))
RV_ERRNO(destroy_srq, (struct ibv_srq *srq), (srq))
RV_MADE(create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr, struct ibv_qp **out), (pd, attr))
RV_ERRNO(modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask), (qp, attr, mask))
RV_ERRNO(attach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))
RV_ERRNO(detach_mcast, (struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid), (qp, gid, lid))

static inline int rv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_init_attr init;

	return rv_errno(ibv_query_qp(qp, attr, mask, &init));
}

RV_ERRNO(destroy_qp, (struct ibv_qp *qp), (qp))

/* A refused post: the request's place in the chain above, its errno below. */
static inline int64_t rv_refused(int64_t index, int ret)
{
	return index << 32 | (uint32_t)rv_errno(ret);
}

/* rv_post_send posts a chain whose requests lie in one array; 0, or rv_refused.
 * libibverbs' rxe provider sets bad to NULL when it is the doorbell that fails: that
 * counts as the first request's refusal. */
static inline int64_t rv_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = wr;
	int ret = ibv_post_send(qp, wr, &bad);

	return ret ? rv_refused(bad ? bad - wr : 0, ret) : 0;
}

/* rv_post_recv is rv_post_send for receives. */
static inline int64_t rv_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad = wr;
	int ret = ibv_post_recv(qp, wr, &bad);

	return ret ? rv_refused(bad ? bad - wr : 0, ret) : 0;
}

/* rv_post_srq_recv is rv_post_send for receives of an SRQ. */
static inline int64_t rv_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad = wr;
	int ret = ibv_post_srq_recv(srq, wr, &bad);

	return ret ? rv_refused(bad ? bad - wr : 0, ret) : 0;
}

/* What an asynchronous event says. Its CQ and its SRQ exist until it is acknowledged. */
struct rv_event {
	struct ibv_async_event event;
	int type;
	uint32_t qpn;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	int port;
};

/* rv_get_async_event reads one event of a non-blocking fd, for rv_ack_async_event. */
static inline int rv_get_async_event(struct ibv_context *ctx, struct rv_event *out)
{
	memset(out, 0, sizeof(*out));
	errno = 0;
	if (ibv_get_async_event(ctx, &out->event))
		return errno ? errno : EIO;
	out->type = out->event.event_type;
	switch (out->type) {
	case IBV_EVENT_CQ_ERR:
		out->cq = out->event.element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		out->srq = out->event.element.srq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		out->qpn = out->event.element.qp->qp_num;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		out->port = out->event.element.port_num;
		break;
	default:
		break; /* the device, or an object this library does not make */
	}
	return 0;
}

static inline void rv_ack_async_event(struct rv_event *event)
{
	ibv_ack_async_event(&event->event);
}

#endif
