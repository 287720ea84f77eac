/*
 * Posting with the ibv_wr_* calls. Each request is recorded; wr_complete queues them all.
 */
#ifndef RAWVERBS_IBVFAKE_BUILD_H
#define RAWVERBS_IBVFAKE_BUILD_H

static struct fake *of(struct ibv_qp_ex *ex)
{
	return (struct fake *)ex->qp_base.qp_context;
}

static void build_flush(struct fake *f)
{
	if (f->building > 0 && f->building <= 4) {
		f->last_send[f->building - 1] = f->built;
		f->last_sge[f->building - 1] = f->built_sge;
	}
}

static struct ibv_send_wr *build_next(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct fake *f = of(ex);

	build_flush(f);
	f->building++;
	f->built.wr_id = ex->wr_id;
	f->built.send_flags = ex->wr_flags;
	f->built.opcode = opcode;
	f->built.num_sge = 0;
	return &f->built;
}

static void build_start(struct ibv_qp_ex *ex)
{
	of(ex)->building = 0;
}

static int build_complete(struct ibv_qp_ex *ex)
{
	struct fake *f = of(ex);

	build_flush(f);
	f->posts++;
	if (f->refuse_at >= 0 && f->refuse_at < f->building)
		return f->errnum;
	f->wrs += f->building;
	return f->refuse_at == -2 ? f->errnum : 0; // as libibverbs' rxe provider does
}

static void build_abort(struct ibv_qp_ex *ex)
{
	of(ex)->building = 0;
}

static void build_send(struct ibv_qp_ex *ex)
{
	build_next(ex, IBV_WR_SEND);
}

static void build_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	build_next(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void build_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build_next(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void build_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	build_next(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static struct ibv_send_wr *build_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = build_next(ex, opcode);

	wr->wr.rdma.rkey = rkey;
	wr->wr.rdma.remote_addr = addr;
	return wr;
}

static void build_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr);
}

static void build_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	build_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr)->imm_data = imm;
}

static void build_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	build_remote(ex, IBV_WR_RDMA_READ, rkey, addr);
}

static void build_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, uint64_t compare_add,
			 uint64_t swap)
{
	struct ibv_send_wr *wr = build_next(ex, opcode);

	wr->wr.atomic.remote_addr = addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void build_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	build_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void build_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	build_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void build_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = build_next(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static void build_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *data)
{
	build_remote(ex, IBV_WR_ATOMIC_WRITE, rkey, addr);
	memcpy(&of(ex)->atomic_write, data, 8);
}

static void build_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	of(ex)->built.wr.ud.ah = ah;
	of(ex)->built.wr.ud.remote_qpn = qpn;
	of(ex)->built.wr.ud.remote_qkey = qkey;
}

static void build_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	of(ex)->built.num_sge = 1;
	of(ex)->built_sge = (struct ibv_sge){ .addr = addr, .length = length, .lkey = lkey };
}

static void build_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	of(ex)->built.num_sge = n;
	if (n)
		of(ex)->built_sge = list[0];
}

static void build_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	of(ex)->inlined++;
	of(ex)->built.num_sge = n;
	if (n)
		of(ex)->built_sge = (struct ibv_sge){ .addr = (uintptr_t)list[0].addr, .length = list[0].length };
}

static void build_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf one = { addr, length };

	build_set_inline_data_list(ex, 1, &one);
}

static void fake_builder(struct ibv_qp_ex *ex)
{
	ex->wr_start = build_start;
	ex->wr_complete = build_complete;
	ex->wr_abort = build_abort;
	ex->wr_send = build_send;
	ex->wr_send_imm = build_send_imm;
	ex->wr_send_inv = build_send_inv;
	ex->wr_local_inv = build_local_inv;
	ex->wr_rdma_write = build_write;
	ex->wr_rdma_write_imm = build_write_imm;
	ex->wr_rdma_read = build_read;
	ex->wr_atomic_cmp_swp = build_cmp_swp;
	ex->wr_atomic_fetch_add = build_fetch_add;
	ex->wr_bind_mw = build_bind_mw;
	ex->wr_atomic_write = build_atomic_write;
	ex->wr_set_ud_addr = build_set_ud_addr;
	ex->wr_set_sge = build_set_sge;
	ex->wr_set_sge_list = build_set_sge_list;
	ex->wr_set_inline_data = build_set_inline_data;
	ex->wr_set_inline_data_list = build_set_inline_data_list;
}

#endif
