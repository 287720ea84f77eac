/*
 * Extended completion queues: ibv_start_poll, ibv_next_poll, ibv_wc_read_*.
 */
#include "shim.h"

/* The lock is held from a successful start to the end. */
static int start_poll(struct ibv_cq_ex *v, struct ibv_poll_cq_attr *attr)
{
	struct cq *cq = (struct cq *)v;
	if (attr->comp_mask)
		return failed(EINVAL);
	if (lost(cq->context))
		return failed(EIO);
	if (!cq_ready(cq))
		return ENOENT;
	pthread_mutex_lock(&cq->lock);
	if (!cq_next(cq)) { /* another thread took it */
		pthread_mutex_unlock(&cq->lock);
		return ENOENT;
	}
	v->status = cq->wc.status;
	v->wr_id = cq->wc.wr_id;
	return 0;
}

static int next_poll(struct ibv_cq_ex *v)
{
	struct cq *cq = (struct cq *)v;
	if (!cq_next(cq))
		return ENOENT;
	v->status = cq->wc.status;
	v->wr_id = cq->wc.wr_id;
	return 0;
}

static void end_poll(struct ibv_cq_ex *v) { pthread_mutex_unlock(&((struct cq *)v)->lock); }

/* READS lists the functions ibv_wc_read_*: type, name, value. */
#define READS(X)                                                                             \
	X(enum ibv_wc_opcode, opcode, cq->wc.opcode)                                         \
	X(uint32_t, vendor_err, cq->wc.vendor_err)                                           \
	X(uint32_t, byte_len, cq->wc.byte_len)                                               \
	X(__be32, imm_data, cq->wc.imm_data)                                                 \
	X(uint32_t, qp_num, cq->wc.qp_num)                                                   \
	X(uint32_t, src_qp, cq->wc.src_qp)                                                   \
	X(unsigned int, wc_flags, cq->wc.wc_flags)                                           \
	X(uint32_t, slid, cq->wc.slid)                                                       \
	X(uint8_t, sl, cq->wc.sl)                                                            \
	X(uint8_t, dlid_path_bits, cq->wc.dlid_path_bits)                                    \
	X(uint64_t, completion_ts, cq->stamp)                                                \
	X(uint64_t, completion_wallclock_ns, cq->context->device->epoch_ns + cq->stamp)
#define READ(type, name, value) \
	static type read_##name(struct ibv_cq_ex *v) { struct cq *cq = (struct cq *)v; return value; }
READS(READ)

/* Fields that the device does not have, and that no flag can ask for. Programs that read them get 0. */
static uint16_t read_cvlan(struct ibv_cq_ex *v) { (void)v; return 0; }
static uint32_t read_flow_tag(struct ibv_cq_ex *v) { (void)v; return 0; }
static void read_tm_info(struct ibv_cq_ex *v, struct ibv_wc_tm_info *info) { (void)v; *info = (struct ibv_wc_tm_info){0}; }

struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t known = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
	const uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	bool flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS;
	if (attr->wc_flags & ~known || attr->comp_mask & ~masks ||
	    (flags && attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))
		return null(EOPNOTSUPP);
	struct ibv_pd *pd = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!pd || pd->context != context || !((struct pd *)pd)->protection))
		return null(EINVAL);
	struct cq *cq = cq_new(context_of(context), attr->cqe, attr->cq_context, attr->channel, attr->comp_vector,
			       attr->wc_flags | IBV_WC_EX_WITH_BYTE_LEN, pd);
	if (!cq)
		return NULL;
	struct ibv_cq_ex *v = &cq->verbs;
	v->start_poll = start_poll;
	v->next_poll = next_poll;
	v->end_poll = end_poll;
#define SET_READ(type, name, value) v->read_##name = read_##name;
	READS(SET_READ)
	v->read_cvlan = read_cvlan;
	v->read_flow_tag = read_flow_tag;
	v->read_tm_info = read_tm_info;
	return v;
}
