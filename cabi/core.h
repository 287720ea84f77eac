/*
 * What the shim (C, cabi/shim) calls in the core (Go, cabi/core). Both sides include this file.
 *
 * Objects of the core have handles: numbers from 1 on. Functions return 0 or an errno unless
 * their comment says otherwise. Structs are those of libibverbs.
 */
#ifndef RAWVERBS_CORE_H
#define RAWVERBS_CORE_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

typedef uint32_t rv_handle;

/* The value of the SIGSEGV that a thread of the core sends itself; see cabi/core/threads.c. */
#define RV_NEW_THREAD ((void *)0x52561)

/* What shim and core share of a device, from rv_open until the last rv_close. */
struct rv_device {
	int32_t attending; /* number of threads that wait for packets_fd; the shim counts them */
	int32_t packets_fd; /* readable while packets wait */
	uint64_t epoch_ns; /* wall clock at time 0 of the device's clock */
	uintptr_t poller; /* the thread that last polled in vain for long; the shim's */
};

/* What a thread that drove has found: see found_nothing in shim/wait.c. */
enum rv_traffic {
	RV_NOTHING,
	RV_STREAM, /* no packet waits, but much moves in one direction */
	RV_RECEIVED, /* packets */
};

/* What shim and core share of a completion channel. */
struct rv_channel {
	int32_t fd; /* the end of the pipe that gets 8 bytes, the CQ's event, for each completion event */
	uint32_t missed; /* number of events that did not fit; rv_renotify writes them */
};

/*
 * The ring of a CQ. The core writes completions and tail; the shim reads them and writes head.
 * Both count completions. A completion's place is its number modulo length, a power of two.
 */
struct rv_ring {
	uint32_t head __attribute__((aligned(64))); /* in a cache line of its own */
	uint32_t tail __attribute__((aligned(64)));
	uint32_t length;
	uint32_t depth; /* entries in use, at most length */
	struct ibv_wc *wcs;
	int64_t *stamps; /* times of the completions in nanoseconds; NULL: not kept */
};

/* Where the parts of a send work request are that cgo cannot name: they lie in unions. */
enum {
	RV_WR_IMM = offsetof(struct ibv_send_wr, imm_data),
	RV_WR_RDMA_ADDR = offsetof(struct ibv_send_wr, wr.rdma.remote_addr),
	RV_WR_RDMA_RKEY = offsetof(struct ibv_send_wr, wr.rdma.rkey),
	RV_WR_ATOMIC_ADDR = offsetof(struct ibv_send_wr, wr.atomic.remote_addr),
	RV_WR_ATOMIC_COMPARE_ADD = offsetof(struct ibv_send_wr, wr.atomic.compare_add),
	RV_WR_ATOMIC_SWAP = offsetof(struct ibv_send_wr, wr.atomic.swap),
	RV_WR_ATOMIC_RKEY = offsetof(struct ibv_send_wr, wr.atomic.rkey),
	RV_WR_UD_AH = offsetof(struct ibv_send_wr, wr.ud.ah),
	RV_WR_UD_QPN = offsetof(struct ibv_send_wr, wr.ud.remote_qpn),
	RV_WR_UD_QKEY = offsetof(struct ibv_send_wr, wr.ud.remote_qkey),
	RV_WR_BIND = offsetof(struct ibv_send_wr, bind_mw),
};

/* IBV_WR_FLUSH, which old headers lack. The atomic's compare_add is the length, swap the type and the level << 8. */
enum { RV_WR_FLUSH = 14 };

/*
 * Requests name these objects. The core finds its own by the handle behind the public struct, because
 * programs can write into that. The rest is the shim's.
 */
struct rv_mr {
	struct ibv_mr verbs;
	rv_handle handle;
	struct context *context;
	unsigned *users; /* the users of the device memory; NULL for other regions */
};
struct rv_mw {
	struct ibv_mw verbs;
	rv_handle handle;
	struct context *context;
};
struct rv_ah {
	struct ibv_ah verbs;
	rv_handle handle;
	struct context *context;
};

/* struct ibv_send_wr's bind_mw, which has no name. */
struct rv_bind {
	struct ibv_mw *mw;
	uint32_t rkey;
	struct ibv_mw_bind_info info;
};

/* RV_CORE lists the functions: return type, name, arguments. */
#define RV_CORE(X)                                                                                            \
	/* Does nothing. The first call of a thread takes longer and changes its signal mask. */                 \
	X(void, rv_enter, (void))                                                                                \
	/* Sends what the devices owe their peers, before the program exits. */                                  \
	X(void, rv_flush, (void))                                                                                \
	/* A context: one opening of a device. All openings of a name in a process share the device. */          \
	/* The core duplicates async_fd, which gets the asynchronous events. */                                  \
	X(int, rv_open, (char *name, uint64_t guid, int async_fd, struct rv_device **device, rv_handle *ctx))     \
	/* Another handle of a context. Its objects live until all handles are closed. */                        \
	X(int, rv_import, (rv_handle from, struct rv_device **device, rv_handle *ctx))                           \
	X(int, rv_close, (rv_handle ctx))                                                                        \
	X(int, rv_query_device, (rv_handle ctx, struct ibv_device_attr_ex *attr))                                \
	X(int, rv_query_port, (rv_handle ctx, int port, struct ibv_port_attr *attr))                             \
	/* Returns the number of entries, or a negative errno. */                                                \
	X(int, rv_query_gid_table, (rv_handle ctx, struct ibv_gid_entry *entries, int max))                      \
	X(int, rv_query_pkey, (rv_handle ctx, int port, int index, uint16_t *pkey))                              \
	/* While hold is not 0, no asynchronous event is reported. */                                            \
	X(void, rv_hold_events, (rv_handle ctx, int hold))                                                       \
	X(uint64_t, rv_clock, (rv_handle ctx))                                                                   \
	X(int, rv_alloc_pd, (rv_handle ctx, rv_handle *pd))                                                      \
	X(int, rv_dealloc_pd, (rv_handle pd))                                                                    \
	X(int, rv_reg_mr, (rv_handle pd, uintptr_t addr, size_t length, uint64_t iova, unsigned access,          \
			   rv_handle *mr, uint32_t *lkey, uint32_t *rkey))                                       \
	X(int, rv_reg_dmabuf_mr, (rv_handle pd, uint64_t offset, size_t length, uint64_t iova, int fd,           \
				  unsigned access, rv_handle *mr, uint32_t *lkey, uint32_t *rkey))               \
	X(int, rv_alloc_null_mr, (rv_handle pd, rv_handle *mr, uint32_t *lkey))                                  \
	X(int, rv_rereg_mr, (rv_handle mr, int flags, rv_handle pd, uintptr_t addr, size_t length,               \
			     unsigned access, uint32_t *lkey, uint32_t *rkey))                                   \
	X(int, rv_dereg_mr, (rv_handle mr))                                                                      \
	X(int, rv_advise_mr, (rv_handle pd, int advice, uint32_t flags, struct ibv_sge *sgl, uint32_t n))        \
	/* Binds of a window of type 2 write its key to rkey when they have succeeded, until rv_dealloc_mw. */    \
	X(int, rv_alloc_mw, (rv_handle pd, int type, rv_handle *mw, uint32_t *rkey))                             \
	X(int, rv_bind_mw, (rv_handle qp, rv_handle mw, struct ibv_mw_bind *bind, uint32_t *rkey))               \
	X(int, rv_dealloc_mw, (rv_handle mw))                                                                    \
	/* channel is NULL if the CQ has none. event is also in asynchronous events. */                          \
	X(int, rv_create_cq, (rv_handle ctx, uint64_t wc_flags, struct rv_ring *ring, struct rv_channel *channel, \
			      uint64_t event, rv_handle *cq))                                                    \
	/* Writes events that did not fit, and more that the shim could not put back. */                         \
	X(void, rv_renotify, (rv_handle cq, uint32_t more))                                                      \
	/* Moves the completions to the ring's new entries. The shim does not poll meanwhile. */                 \
	X(int, rv_resize_cq, (rv_handle cq, struct rv_ring *ring))                                               \
	X(int, rv_moderate_cq, (rv_handle cq, int count, int period_us))                                         \
	X(int, rv_arm_cq, (rv_handle cq, int solicited_only))                                                    \
	/* Receives what has arrived. Returns an enum rv_traffic. */                                              \
	X(int, rv_drive, (rv_handle cq))                                                                         \
	X(int, rv_destroy_cq, (rv_handle cq))                                                                    \
	X(int, rv_create_srq, (rv_handle pd, struct ibv_srq_attr *attr, uint64_t element, rv_handle *srq))       \
	X(int, rv_modify_srq, (rv_handle srq, struct ibv_srq_attr *attr, int mask))                              \
	X(int, rv_query_srq, (rv_handle srq, struct ibv_srq_attr *attr))                                         \
	X(int, rv_srq_number, (rv_handle srq, uint32_t *number))                                                 \
	X(int, rv_destroy_srq, (rv_handle srq))                                                                  \
	X(int, rv_create_qp, (rv_handle pd, rv_handle send_cq, rv_handle recv_cq, rv_handle srq, int type,       \
			      int sq_sig_all, struct ibv_qp_cap *cap, uint64_t element, rv_handle *qp,           \
			      uint32_t *qpn))                                                                    \
	X(int, rv_modify_qp, (rv_handle qp, struct ibv_qp_attr *attr, int mask))                                 \
	X(int, rv_query_qp, (rv_handle qp, struct ibv_qp_attr *attr, int mask))                                  \
	X(int, rv_destroy_qp, (rv_handle qp))                                                                    \
	X(int, rv_attach_mcast, (rv_handle qp, union ibv_gid *gid, uint16_t lid))                                \
	X(int, rv_detach_mcast, (rv_handle qp, union ibv_gid *gid, uint16_t lid))                                \
	/* After an error *bad is the refused request. */                                                        \
	X(int, rv_post_send, (rv_handle qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad))                   \
	X(int, rv_post_recv, (rv_handle qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad))                   \
	X(int, rv_post_srq_recv, (rv_handle srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad))              \
	X(int, rv_create_ah, (rv_handle pd, struct ibv_ah_attr *attr, rv_handle *ah))                            \
	X(int, rv_destroy_ah, (rv_handle ah))                                                                    \
	X(int, rv_init_ah_from_wc, (rv_handle ctx, int port, struct ibv_wc *wc, struct ibv_grh *grh,             \
				     struct ibv_ah_attr *attr))                                                  \
	/* For the other handles of a context: ENOENT unless the context has the object. */                      \
	X(int, rv_import_pd, (rv_handle ctx, rv_handle pd))                                                      \
	X(void, rv_unimport_pd, (rv_handle pd))                                                                  \
	X(int, rv_import_mr, (rv_handle pd, rv_handle mr, uint64_t *length, uint32_t *lkey, uint32_t *rkey))

#endif
