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

#define READ(type, name, value) \
	static type name(struct ibv_cq_ex *v) { struct cq *cq = (struct cq *)v; return value; }
READ(enum ibv_wc_opcode, read_opcode, cq->wc.opcode)
READ(uint32_t, read_vendor_err, cq->wc.vendor_err)
READ(uint32_t, read_byte_len, cq->wc.byte_len)
READ(__be32, read_imm_data, cq->wc.imm_data)
READ(uint32_t, read_qp_num, cq->wc.qp_num)
READ(uint32_t, read_src_qp, cq->wc.src_qp)
READ(unsigned int, read_wc_flags, cq->wc.wc_flags)
READ(uint32_t, read_slid, cq->wc.slid)
READ(uint8_t, read_sl, cq->wc.sl)
READ(uint8_t, read_dlid_path_bits, cq->wc.dlid_path_bits)
READ(uint64_t, read_stamp, cq->stamp)
READ(uint64_t, read_wallclock, cq->context->device->epoch_ns + cq->stamp)

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
	v->read_opcode = read_opcode;
	v->read_vendor_err = read_vendor_err;
	v->read_byte_len = read_byte_len;
	v->read_imm_data = read_imm_data;
	v->read_qp_num = read_qp_num;
	v->read_src_qp = read_src_qp;
	v->read_wc_flags = read_wc_flags;
	v->read_slid = read_slid;
	v->read_sl = read_sl;
	v->read_dlid_path_bits = read_dlid_path_bits;
	v->read_completion_ts = read_stamp;
	v->read_completion_wallclock_ns = read_wallclock;
	v->read_cvlan = read_cvlan;
	v->read_flow_tag = read_flow_tag;
	v->read_tm_info = read_tm_info;
	return v;
}
