/*
 * struct fake and the set-up of its objects. The operations are in fake_post.h,
 * fake_build.h and fake_poll.h.
 */
#ifndef RAWVERBS_IBVFAKE_H
#define RAWVERBS_IBVFAKE_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <infiniband/verbs.h>

// The last post, for a test to check, and the behaviour of the next calls.
struct fake {
	struct verbs_context vctx;
	struct ibv_qp_ex ex;
	uint32_t ex_comp_mask;      // follows ex: struct verbs_qp of libibverbs, which is private
	struct ibv_srq srq;
	struct ibv_cq_ex cq;        // has the layout of a struct ibv_cq at its beginning
	struct ibv_mw mw;
	struct ibv_mr mr;
	struct ibv_ah ah;           // a handle of 0 means freed
	struct ibv_pd pd;
	int refuse_ops;             // errno of a queue pair with IBV_QP_EX_WITH_ATOMIC_WRITE; 0 makes it
	uint64_t ops[4];            // send_ops_flags of the queue pairs asked for
	int creates;                // number of them
	long posts;                 // number of posts
	long wrs;                   // requests of all posts
	long lost;                  // datagrams whose address handle was freed
	int refuse_at;              // index of the request to refuse; -1: none, -2: the doorbell, after all are queued
	int errnum;                 // errno of a refusal or a failed poll
	int wait_ms;                // limit of a wait of each ibv_post_send, in ms; 0: no wait
	int waiting;                // an ibv_post_send waits
	struct ibv_send_wr last_send[4];
	struct ibv_sge last_sge[4];
	struct ibv_recv_wr last_recv[4];
	struct ibv_wc wc;           // the completion that each poll returns
	struct ibv_send_wr built;   // the request that the ibv_wr_* calls are building
	struct ibv_sge built_sge;
	uint64_t atomic_write;      // word of the last ATOMIC WRITE
	int building;               // number of that request, from 1
	int inlined;                // requests with inline data
	int polled;                 // maximum number of completions per poll
	int left;                   // remaining completions of an extended batch
	long polls, empty;          // number of polls; number of further polls that return nothing
	long starts, nexts, ends;   // calls of start_poll, next_poll and end_poll
};

#include "fake_post.h"
#include "fake_build.h"
#include "fake_poll.h"

/* fake_create_qp_ex gives out the one queue pair. */
static struct ibv_qp *fake_create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr)
{
	struct fake *f = (struct fake *)((char *)ctx - offsetof(struct fake, vctx.context));

	if (f->creates < 4)
		f->ops[f->creates] = attr->send_ops_flags;
	f->creates++;
	if (f->refuse_ops && attr->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) {
		errno = f->refuse_ops;
		return NULL;
	}
	return &f->ex.qp_base;
}

static struct fake *fake_new(void)
{
	struct fake *f = calloc(1, sizeof(*f));

	f->refuse_at = -1;
	f->vctx.sz = sizeof(f->vctx);
	f->vctx.create_qp_ex = fake_create_qp_ex;
	f->vctx.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	f->pd.context = &f->vctx.context;
	f->ex_comp_mask = 1 << 1; // VERBS_QP_EX
	f->vctx.context.ops.post_send = fake_post_send;
	f->vctx.context.ops.post_recv = fake_post_recv;
	f->vctx.context.ops.poll_cq = fake_poll_cq;
	f->ex.qp_base.context = &f->vctx.context;
	f->ex.qp_base.qp_context = f;
	f->ex.qp_base.qp_num = 0x11;
	fake_builder(&f->ex);
	f->vctx.context.ops.post_srq_recv = fake_post_srq_recv;
	f->srq.context = &f->vctx.context;
	f->srq.srq_context = f;
	f->mw.context = f->mr.context = &f->vctx.context;
	f->mw.type = IBV_MW_TYPE_2;
	f->mw.rkey = 0x700;
	f->mr.lkey = f->mr.rkey = 0x900;
	f->ah.context = &f->vctx.context;
	f->ah.handle = 1;
	f->cq.context = &f->vctx.context;
	f->cq.cq_context = f;
	fake_extended(&f->cq);
	return f;
}

#endif
