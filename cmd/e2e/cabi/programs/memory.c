/*
 * Regions and windows: which memory can be registered, which keys a bind of type 2 makes, and whose
 * buffers ibv_reg_buf_mr takes. The argument selects a case.
 */
#include "pair.h"

#include <dlfcn.h>

#define NONE(call, error) CHECK((errno = 0, !(call)) && errno == (error))

static uint8_t *map(int protection)
{
	uint8_t *memory = mmap(NULL, 4 * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	return memory;
}

static void registers(struct ibv_pd *pd, void *from, size_t length, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, from, length, access);
	CHECK(mr && mr->length == length && !ibv_dereg_mr(mr));
}

static void presence(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	uint8_t *whole = map(PROT_READ | PROT_WRITE), *holed = map(PROT_READ | PROT_WRITE), *constant = map(PROT_READ);
	CHECK(!munmap(holed + 2 * PAGE, PAGE));
	CHECK(!mprotect(whole + 3 * PAGE, PAGE, PROT_READ));
	memcpy(whole, "the same", 9);
	registers(pd, whole, 3 * PAGE, ACCESS);
	registers(pd, whole + 3, 5, ACCESS);
	registers(pd, constant, 4 * PAGE, IBV_ACCESS_REMOTE_READ);
	registers(pd, holed, 2 * PAGE, ACCESS);
	CHECK(!strcmp((char *)whole, "the same"));
	NONE(ibv_reg_mr(pd, holed, 4 * PAGE, 0), EFAULT); /* the hole is in the middle */
	NONE(ibv_reg_mr(pd, holed + PAGE + 1, PAGE, ACCESS), EFAULT); /* at the end */
	NONE(ibv_reg_mr(pd, holed + 2 * PAGE, 1, 0), EFAULT);
	NONE(ibv_reg_mr(pd, constant, PAGE, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	NONE(ibv_reg_mr(pd, whole, 3 * PAGE + 1, IBV_ACCESS_LOCAL_WRITE), EFAULT); /* the last byte cannot be written */
	registers(pd, holed, 4 * PAGE, ACCESS | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *mr = ibv_reg_mr(pd, whole, PAGE, ACCESS);
	CHECK(mr);
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, holed + 2 * PAGE, PAGE, 0) == IBV_REREG_MR_ERR_CMD && errno == EFAULT);
	CHECK(!ibv_dereg_mr(mr) && (mr = ibv_reg_mr(pd, constant, PAGE, IBV_ACCESS_REMOTE_READ)));
	CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ACCESS) == IBV_REREG_MR_ERR_CMD && errno == EFAULT);
	CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
}

/* A region of 0 bytes has an address within a page, as with rdma_rxe. No byte of it can be read or written. */
static void nothing(struct ibv_context *context)
{
	struct end a, b;
	pair_on(context, &a, &b);
	NONE(ibv_reg_mr(b.pd, b.buf, 0, ACCESS), EINVAL);
	NONE(ibv_reg_mr(b.pd, (void *)8, 0, ACCESS), EFAULT);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf + 8, 0, ACCESS);
	CHECK(mr && mr->length == 0 && mr->addr == b.buf + 8);
	struct ibv_sge sge = {.addr = (uintptr_t)a.buf, .lkey = a.mr->lkey};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .wr.rdma = {(uintptr_t)b.buf + 8, mr->rkey}}, *bad;
	CHECK(!ibv_post_send(a.qp, &wr, &bad) && completion(a.cq).status == IBV_WC_SUCCESS);
	sge.length = 1;
	CHECK(!ibv_post_send(a.qp, &wr, &bad) && completion(a.cq).status == IBV_WC_REM_ACCESS_ERR);
	struct ibv_mr *same = ibv_import_mr(b.pd, mr->handle);
	CHECK(same && same->length == 0);
	ibv_unimport_mr(same);
	CHECK(!ibv_dereg_mr(mr));
	free_end(&a);
	free_end(&b);
	pair_on(context, &a, &b);
	CHECK(mr = ibv_reg_mr(b.pd, b.buf + 8, 0, ACCESS));
	sge = (struct ibv_sge){.addr = (uintptr_t)a.buf, .length = 1, .lkey = a.mr->lkey};
	wr = (struct ibv_send_wr){.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1, .wr.rdma = {(uintptr_t)b.buf + 8, mr->rkey}};
	CHECK(!ibv_post_send(a.qp, &wr, &bad) && completion(a.cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(!ibv_dereg_mr(mr));
	free_end(&a);
	free_end(&b);
}

/* Posts a bind to a window of type 2, which the second end owns. */
static enum ibv_wc_status bind(struct end *e, struct ibv_mw *mw, struct ibv_mr *mr, uint32_t rkey, uint64_t length)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_BIND_MW, .bind_mw = {.mw = mw, .rkey = rkey, .bind_info = {mr, (uintptr_t)e->buf, length, IBV_ACCESS_REMOTE_WRITE}}};
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
	return completion(e->cq).status;
}

static void windows(struct ibv_context *context)
{
	struct end a, b;
	pair_on(context, &a, &b);
	struct ibv_mr *mr = ibv_reg_mr(b.pd, b.buf, LENGTH, ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2), *other = ibv_alloc_mw(b.pd, IBV_MW_TYPE_2);
	CHECK(mr && mw && other);
	uint32_t upper = mw->rkey & ~0xffu, others = other->rkey;
	CHECK(bind(&b, mw, mr, 0x12345605, 64) == IBV_WC_SUCCESS);
	CHECK(mw->rkey == (upper | 5)); /* the program chooses the low 8 bits only */
	struct ibv_sge sge = {(uintptr_t)a.buf, 8, a.mr->lkey};
	struct ibv_send_wr *bad, write = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1, .wr.rdma = {(uintptr_t)b.buf, mw->rkey}};
	memcpy(a.buf, "a window", 8);
	CHECK(!ibv_post_send(a.qp, &write, &bad) && completion(a.cq).status == IBV_WC_SUCCESS && !memcmp(b.buf, "a window", 8));
	struct ibv_send_wr inv = {.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = mw->rkey};
	CHECK(!ibv_post_send(b.qp, &inv, &bad) && completion(b.cq).status == IBV_WC_SUCCESS);
	CHECK(bind(&b, mw, mr, ibv_inc_rkey(mw->rkey), 64) == IBV_WC_SUCCESS && mw->rkey == (upper | 6));
	CHECK(bind(&b, other, mr, 7, LENGTH + 1) == IBV_WC_MW_BIND_ERR && other->rkey == others); /* a bind that fails sets no key */
	CHECK(!ibv_dealloc_mw(mw) && !ibv_dealloc_mw(other) && !ibv_dereg_mr(mr));
	free_end(&a);
	free_end(&b);
}

static void buffers(struct ibv_context *context)
{
	void *(*alloc_buf)(struct ibv_pd *, size_t, void **) = dlvsym(RTLD_DEFAULT, "ibv_alloc_buf", "IBVERBS_1.17");
	struct ibv_mr *(*reg_buf)(struct ibv_pd *, void *, void *, size_t, int) = dlvsym(RTLD_DEFAULT, "ibv_reg_buf_mr", "IBVERBS_1.17");
	void (*free_buf)(void *) = dlvsym(RTLD_DEFAULT, "ibv_free_buf", "IBVERBS_1.17");
	struct ibv_pd *pd = ibv_alloc_pd(context), *other = ibv_alloc_pd(context);
	struct ibv_parent_domain_init_attr init = {.pd = pd}, unknown = {.pd = pd, .comp_mask = 1 << 5};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &init);
	CHECK(alloc_buf && reg_buf && free_buf && pd && other && parent);
	void *handle, *start = alloc_buf(pd, PAGE, &handle);
	CHECK(start);
	NONE(reg_buf(other, handle, start, PAGE, 0), EINVAL);
	struct ibv_mr *mr = reg_buf(parent, handle, start, PAGE, 0); /* the same domain */
	CHECK(mr && !ibv_dereg_mr(mr));
	free_buf(handle);
	NONE(ibv_alloc_parent_domain(context, &unknown), EOPNOTSUPP);
	CHECK(!ibv_dealloc_pd(parent) && !ibv_dealloc_pd(other) && !ibv_dealloc_pd(pd));
}

int main(int argc, char **argv)
{
	static const struct named cases[] = {{"presence", presence}, {"nothing", nothing}, {"windows", windows}, {"buffers", buffers}};
	return run_named(argc, argv, cases, sizeof cases / sizeof *cases);
}
