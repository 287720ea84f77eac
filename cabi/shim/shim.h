/*
 * The shim: libibverbs' functions for the software device. README.md in the folder above has the
 * plan; each file implements the functions of one object.
 *
 * Calls on the devices of the real library go to the real library (real.c).
 */
#ifndef RAWVERBS_SHIM_H
#define RAWVERBS_SHIM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../core.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* These are macros of verbs.h; the shim defines the functions. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

/* What the shim's files share is hidden; libibverbs' functions, and libc's that it replaces, are not. */
#pragma GCC visibility push(hidden)

/* core.c: the functions of a loaded core. */
struct core {
#define RV_POINTER(type, name, arguments) type (*name) arguments;
	RV_CORE(RV_POINTER)
#undef RV_POINTER
};
/* Returns the core of this process, which it loads if necessary. NULL and errno after an error. */
struct core *core_load(void);
/* Grows with each fork: objects of another generation belong to the parent. */
extern unsigned core_generation;
/* The generation in which this thread has called the core. */
extern __thread unsigned thread_generation;
/* Must be called by a thread before its first call of the core. */
void thread_enter(struct core *core);

/* signals.c. The first two enclose the loading of the core, which may fail. */
void signals_before_load(void);
void signals_after_load(bool loaded);
/* Says where the core's instructions are. */
void signals_core_at(void *function);
void signals_forked(void);
/* Reports whether the program wants interrupted calls to be restarted. */
bool signals_restart(void);

/* async belongs to a pipe of asynchronous events. An imported context shares that of the original. */
struct async {
	pthread_mutex_t lock; /* held while records are read */
	unsigned contexts;
};

struct context {
	rv_handle handle;
	struct core *core;
	unsigned generation;
	int async_fd; /* the end of the pipe that the core writes */
	struct async *async;
	struct rv_device *device;
	struct ibv_device_attr_ex attr; /* the core is not asked again: forked children may ask */
	struct context *next; /* of the open ones */
	struct verbs_context verbs; /* the program has a pointer to verbs.context */
};

struct channel {
	struct ibv_comp_channel verbs;
	struct rv_channel shared;
	pthread_mutex_t lock; /* held while records are read, and for cqs */
	struct cq *cqs;
	rv_handle driver; /* one of the channel's CQs, for driving; 0 if there is none */
	unsigned count; /* index: where the next thread counts that drives */
	int driving[2]; /* numbers of threads that use driver */
	unsigned vain; /* of poll_first */
};

struct pd {
	struct ibv_pd verbs;
	rv_handle handle;
	struct context *context;
	bool imported;
	unsigned users; /* objects of the domain, and parent domains */
	/* of a parent domain: */
	struct pd *protection; /* its protection domain; NULL: this is none */
	struct td *td;
	void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment, uint64_t resource_type);
	void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
	void *pd_context;
};

/* What memory from a parent domain's allocator is for: its resource_type. */
enum resource { RESOURCE_QP, RESOURCE_CQ };

/* block is memory from pd_alloc. */
struct block {
	void *start;
	struct pd *of; /* the parent domain that allocated it; NULL: the library did */
	enum resource resource;
};

struct srq {
	struct ibv_srq verbs;
	rv_handle handle;
	struct context *context;
	unsigned reported; /* asynchronous events that the program got */
};

struct cq {
	struct ibv_cq_ex verbs; /* begins like struct ibv_cq */
	rv_handle handle;
	struct context *context;
	struct cq *next; /* of the channel's */
	unsigned reported, async_reported; /* events that the program got */
	pthread_mutex_t lock; /* held while completions are taken */
	struct rv_ring ring;
	struct block entries; /* of the ring */
	struct ibv_pd *pd; /* the parent domain of an extended CQ, or NULL */
	struct ibv_wc wc; /* the completion of an extended poll */
	uint64_t stamp;
};

/* wr_flush follows wr_atomic_write. Old headers lack it. */
typedef void wr_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t length, uint8_t type, uint8_t level);
enum { WR_FLUSH_AT = offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *) };

struct qp {
	union {
		struct ibv_qp_ex verbs; /* begins with struct ibv_qp */
		char with_flush[WR_FLUSH_AT + sizeof(wr_flush *)];
	};
	rv_handle handle;
	struct context *context;
	int sq_sig_all;
	unsigned reported; /* asynchronous events that the program got */
	struct builder *builder; /* NULL unless created for ibv_wr_* */
};

/* contexts */
static inline struct context *context_of(struct ibv_context *c)
{
	return (struct context *)((char *)c - offsetof(struct context, verbs.context));
}
/* ours reports whether a context belongs to the software device. */
bool ours(const struct ibv_context *c);
/* lost reports whether a context was inherited by a fork. Its core is in the parent. */
static inline bool lost(const struct context *c) { return c->generation != core_generation; }

/* device.c: forgets, in a child, the parent's open devices. */
void devices_forked(void);
/* dm.c forgets the parent's device memories. buffer.c forgets the parent's buffers. */
void dms_forked(void);
void buffers_forked(void);
/* The software device of this process, whether it is open or not. */
struct ibv_device *soft_device(void);
/* The GID of a slot of the open device; ENODATA: the slot is empty. */
int soft_gid(unsigned index, struct ibv_gid_entry *entry);
/* tables.c: the GID of a slot of a port, as soft_gid. */
int find_gid(struct context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry);

/* files.c: while it is not 0, this thread sees the files of real devices only. */
extern __thread int files_untrapped;

/* core_of returns the core of a context that is not lost. */
static inline struct core *core_of(const struct context *c)
{
	if (thread_generation != core_generation)
		thread_enter(c->core);
	return c->core;
}
/*
 * A function that fails sets errno, also if it returns the error, as the kernel's calls do. One that succeeds
 * leaves errno as it was, because cgo returns errno as an error if it is not 0.
 */
static inline int failed(int error)
{
	errno = error;
	return error;
}
static inline int answer(int errno_before, int error) { return error ? failed(error) : (errno = errno_before, 0); }
/* LEAVE_ERRNO puts errno back at the end of a block. */
static inline void errno_back(const int *before) { errno = *before; }
#define LEAVE_ERRNO const int left_errno __attribute__((cleanup(errno_back))) = errno

/* CALL calls a function of a context's core. */
#define CALL(c, name, ...)                                                                  \
	({                                                                                  \
		int errno_before = errno;                                                   \
		answer(errno_before, lost(c) ? EIO : core_of(c)->name(__VA_ARGS__));        \
	})

/*
 * A program can write into the public struct of an object. Control calls find no object then, as in the
 * kernel. Requests and polls do not look at handles, as those of drivers do not.
 */
#define GENUINE(type, v)                                          \
	((v)->handle == ((struct type *)(v))->handle &&           \
	 (v)->context == &((struct type *)(v))->context->verbs.context)
/* CALL_OF calls a function with the handle of an object. absent is the error if it is none. */
#define CALL_OF(type, v, absent, name, ...)                                                               \
	(GENUINE(type, v) ? CALL(((struct type *)(v))->context, name, ((struct type *)(v))->handle, ##__VA_ARGS__) \
			  : failed(absent))

/*
 * An object counts the objects that use it, which threads may make and destroy at the same time. It is
 * busy until held is 0.
 */
static inline void hold(unsigned *users) { __atomic_add_fetch(users, 1, __ATOMIC_RELAXED); }
static inline void release(unsigned *users) { __atomic_sub_fetch(users, 1, __ATOMIC_RELEASE); }
static inline unsigned held(const unsigned *users) { return __atomic_load_n(users, __ATOMIC_ACQUIRE); }

/* pd.c: returns EBUSY, because other objects use the object. */
int in_use(const char *call, const char *object, unsigned users);

/* null sets errno and returns NULL. */
static inline void *null(int error)
{
	errno = error;
	return NULL;
}

/* undone is null after an error in the making of an object. */
static inline void *undone(void *object, int error)
{
	free(object);
	return null(error);
}

/* real.c: functions of the real libibverbs. REAL(f) ends the process if the library has no function f. */
void *real_symbol(const char *name, bool needed);
/* The function of a version node, or NULL. */
void *real_version(const char *name, const char *node);
#define SYMVER(local, public) __asm__(".symver " #local "," public)
#define REAL(name)                                                    \
	({                                                            \
		static __typeof__(&name) known;                       \
		__typeof__(&name) function = __atomic_load_n(&known, __ATOMIC_ACQUIRE); \
		if (!function) {                                      \
			function = real_symbol(#name, true);          \
			__atomic_store_n(&known, function, __ATOMIC_RELEASE); \
		}                                                     \
		function;                                             \
	})

/* UNLESS_OURS passes a call on another device to the real library, and returns what that returns. */
#define UNLESS_OURS(context, name, ...)            \
	if (!ours(context))                        \
		return REAL(name)(__VA_ARGS__)

/* channel.c: pipes of records. A pipe's writing end does not block. */
int pipe_new(int ends[2]);
/* Takes a record without waiting: 1, or 0 if there is none, or -1 and errno. The caller holds the lock of the pipe's reader. */
int pipe_take(int fd, void *record, size_t size);
int pipe_records(int fd, size_t size);
/* channel_users returns the count of the channel's CQs. */
static inline unsigned *channel_users(struct ibv_comp_channel *channel) { return (unsigned *)&channel->refcnt; }
/* A CQ's notifications go to the channel, whose waiting threads drive for it, until it leaves. */
void channel_join(struct channel *channel, struct cq *cq);
void channel_leave(struct channel *channel, struct cq *cq);
/* Takes the records of a CQ that notifies no more out of the pipe. */
void channel_forget(struct channel *channel, struct cq *cq);

/* wait.c: how a thread waits for packets. */
/* Polls for a moment before a sleep, and returns what poll returns. vain is 0 at first, and for all who sleep on one thing. */
int poll_first(unsigned *vain, struct pollfd *fds, int n);
/* After a poll of a CQ that has driven and found nothing. */
void found_nothing(struct context *c, enum rv_traffic traffic);
/* This thread's polls without packets. Its address stands for the thread. */
extern __thread struct idle {
	unsigned polls; /* in a row; cq_ready sets it to 0 */
	unsigned rare; /* yields that took long, less the others */
	uint64_t since; /* time of the first of polls, in nanoseconds */
} idle;
/* Counts the threads that wait for packets. The standby thread leaves the packets to them. */
void attend(struct context *c, int by);

/* async.c: takes the records of an object that has no more events out of the pipe. */
void async_forget(struct context *c, void *object);
/* Waits until the program has acknowledged the events of an object. */
void await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, const unsigned *reported);

/* The operations of a context, in the files of their objects. */
int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs);
int arm_cq(struct ibv_cq *cq, int solicited_only);
int modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
/* pd is a parent domain or NULL. */
struct cq *cq_new(struct context *c, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector, uint64_t wc_flags,
		  struct ibv_pd *pd);
/* Reports whether the CQ has completions, after driving if it has none. */
bool cq_ready(struct cq *cq);
/* Takes the next completion. The caller holds the lock. */
bool cq_next(struct cq *cq);
/* Takes the completions of a queue pair out of the CQ. */
void cq_forget(struct cq *cq, uint32_t qpn);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
#define ATOMIC_LENGTH 8 /* bytes of an atomic, and of ATOMIC WRITE */
/* builder_can reports whether the ibv_wr_* calls of all these operations work on a type. */
bool builder_can(enum ibv_qp_type type, uint64_t operations);
int builder_init(struct qp *qp, const struct ibv_qp_cap *cap);
void builder_free(struct qp *qp);
int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int get_srq_num(struct ibv_srq *srq, uint32_t *number);
/* pd_hold and pd_release count the objects of a domain. */
void pd_hold(struct ibv_pd *pd);
void pd_release(struct ibv_pd *pd);
/* pd_alloc returns zeroed memory for an object of a domain. The domain may be NULL. */
bool pd_alloc(struct ibv_pd *pd, struct block *block, size_t size, enum resource resource);
void pd_free(struct block *block);
struct ibv_pd *alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr);
int dealloc_td(struct ibv_td *td);
/* Completes a region that the core has made, or returns its error. It owns mr. */
struct ibv_mr *mr_made(struct rv_mr *mr, int error, struct ibv_pd *pd, void *addr, size_t length);
struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access);
struct ibv_mr *alloc_null_mr(struct ibv_pd *pd);
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int dealloc_mw(struct ibv_mw *mw);
#define MAX_DM (1 << 20) /* bytes of device memory; ConnectX has as much or less */
struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int free_dm(struct ibv_dm *dm);
struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length, unsigned access);
int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sgl, uint32_t n);

#pragma GCC visibility pop

#endif
