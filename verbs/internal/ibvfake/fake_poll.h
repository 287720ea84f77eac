/*
 * Polling with ibv_poll_cq and the extended calls. Each poll returns copies of one
 * completion.
 */
#ifndef RAWVERBS_IBVFAKE_POLL_H
#define RAWVERBS_IBVFAKE_POLL_H

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake *f = (struct fake *)cq->cq_context;
	int i;

	f->polls++;
	if (f->empty > 0) {
		f->empty--;
		return 0;
	}
	if (f->polled < 0) {
		errno = f->errnum;
		return -1;
	}
	if (n > f->polled)
		n = f->polled;
	for (i = 0; i < n; i++)
		wc[i] = f->wc;
	return n;
}

static int fake_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	struct fake *f = (struct fake *)cq->cq_context;

	f->starts++;
	if (f->polled < 0)
		return f->errnum;
	if (f->left <= 0) {
		f->left = f->polled; // the next batch has as many again
		return ENOENT;
	}
	f->left--;
	cq->wr_id = f->wc.wr_id;
	cq->status = f->wc.status;
	return 0;
}

static int fake_next_poll(struct ibv_cq_ex *cq)
{
	struct fake *f = (struct fake *)cq->cq_context;

	f->nexts++;
	if (f->left <= 0)
		return ENOENT;
	f->left--;
	return 0;
}

static void fake_end_poll(struct ibv_cq_ex *cq)
{
	((struct fake *)cq->cq_context)->ends++;
}

static enum ibv_wc_opcode fake_read_opcode(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.opcode; }
static uint32_t fake_read_vendor_err(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.vendor_err; }
static unsigned int fake_read_wc_flags(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.wc_flags; }
static uint32_t fake_read_byte_len(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.byte_len; }
static __be32 fake_read_imm_data(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.imm_data; }
static uint32_t fake_read_qp_num(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.qp_num; }
static uint32_t fake_read_src_qp(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.src_qp; }
static uint32_t fake_read_slid(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.slid; }
static uint8_t fake_read_sl(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.sl; }
static uint8_t fake_read_dlid_path_bits(struct ibv_cq_ex *cq) { return ((struct fake *)cq->cq_context)->wc.dlid_path_bits; }
static uint64_t fake_read_completion_ts(struct ibv_cq_ex *cq) { return 0x1122334455667788; }
static uint64_t fake_read_wallclock(struct ibv_cq_ex *cq) { return 1700000000000000001; }
static uint16_t fake_read_cvlan(struct ibv_cq_ex *cq) { return 0xabc; }
static uint32_t fake_read_flow_tag(struct ibv_cq_ex *cq) { return 0xdef012; }

static void fake_extended(struct ibv_cq_ex *cq)
{
	cq->start_poll = fake_start_poll;
	cq->next_poll = fake_next_poll;
	cq->end_poll = fake_end_poll;
	cq->read_opcode = fake_read_opcode;
	cq->read_vendor_err = fake_read_vendor_err;
	cq->read_wc_flags = fake_read_wc_flags;
	cq->read_byte_len = fake_read_byte_len;
	cq->read_imm_data = fake_read_imm_data;
	cq->read_qp_num = fake_read_qp_num;
	cq->read_src_qp = fake_read_src_qp;
	cq->read_slid = fake_read_slid;
	cq->read_sl = fake_read_sl;
	cq->read_dlid_path_bits = fake_read_dlid_path_bits;
	cq->read_completion_ts = fake_read_completion_ts;
	cq->read_completion_wallclock_ns = fake_read_wallclock;
	cq->read_cvlan = fake_read_cvlan;
	cq->read_flow_tag = fake_read_flow_tag;
}

// fake_loop_poll is the loop that benchmarks compare a poll from Go with.
static void fake_loop_poll(struct fake *f, int batch, struct ibv_wc *wc, long n)
{
	while (n-- > 0)
		ibv_poll_cq((struct ibv_cq *)&f->cq, batch, wc);
}

#endif
