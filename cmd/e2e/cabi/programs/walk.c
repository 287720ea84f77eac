/*
 * Threads that make, use and destroy objects in a random order: walk SEED STEPS. Objects in slots belong to all
 * threads, and a thread destroys them only while nobody uses them. Children belong to a thread, which
 * destroys them at any time. In the end all must be free: a parent that stays busy has lost count of its
 * children. ThreadSanitizer finds the races in the shim (sanitize_test.go).
 */
#include "pair.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>

enum { THREADS = 4, EACH = 2, MOST_CHILDREN = 12, CQES = 4096 };

/* A kind's objects use objects of the kinds before it. So does the order of locks. */
enum kind { CONTEXT, PD, TD, DM, CHANNEL, CQ, SRQ, QP, KINDS };

static struct slot {
	pthread_rwlock_t lock; /* held for writing while the object is made or destroyed */
	void *object; /* NULL: none now */
} slots[KINDS][EACH];

static struct ibv_context *context; /* of all objects in slots but other contexts */
static struct ibv_device *device;
static uint32_t pd_handle, dm_handle; /* of the last ones that were made; their objects may be gone */
static void *(*alloc_buf)(struct ibv_pd *, size_t, void **); /* of later versions */
static int (*free_buf)(void *);

struct child {
	void *object;
	int (*destroy)(void *);
};

struct thread {
	pthread_t id;
	uint64_t state;
	long steps;
	struct slot *held[KINDS * EACH];
	int holds, has;
	struct child children[MOST_CHILDREN];
};

static long made, destroyed, busy, used; /* of all threads */
static void count(long *n) { __atomic_add_fetch(n, 1, __ATOMIC_RELAXED); }

static uint32_t below(struct thread *t, uint32_t n)
{
	t->state ^= t->state << 13;
	t->state ^= t->state >> 7;
	t->state ^= t->state << 17;
	return t->state % n;
}

/* use returns an object of a kind and holds it until let_go. A thread calls it in the order of the kinds. */
static void *use(struct thread *t, enum kind kind)
{
	struct slot *s = t->held[t->holds++] = &slots[kind][below(t, EACH)];
	CHECK(!pthread_rwlock_rdlock(&s->lock));
	return s->object;
}

static void let_go(struct thread *t)
{
	while (t->holds)
		CHECK(!pthread_rwlock_unlock(&t->held[--t->holds]->lock));
}

static int connect_itself(struct ibv_qp *qp) { return try_connect(&(struct end){.qp = qp}, context, qp->qp_num); }

static void *make(struct thread *t, enum kind kind)
{
	void *pd, *channel, *cq, *srq;
	struct ibv_qp_init_attr qp_init = {.qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	switch (kind) {
	case CONTEXT: return ibv_open_device(device);
	case PD: return ibv_alloc_pd(context);
	case TD: return ibv_alloc_td(context, &(struct ibv_td_init_attr){0});
	case DM: return ibv_alloc_dm(context, &(struct ibv_alloc_dm_attr){.length = PAGE});
	case CHANNEL:
		if ((channel = ibv_create_comp_channel(context)))
			CHECK(!fcntl(((struct ibv_comp_channel *)channel)->fd, F_SETFL, O_NONBLOCK));
		return channel;
	case CQ: return (channel = use(t, CHANNEL)) ? ibv_create_cq(context, CQES, NULL, channel, 0) : NULL;
	case SRQ: return (pd = use(t, PD)) ? ibv_create_srq(pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = DEPTH, .max_sge = 1}}) : NULL;
	default:
		pd = use(t, PD), cq = use(t, CQ), srq = below(t, 2) ? use(t, SRQ) : NULL;
		qp_init.send_cq = qp_init.recv_cq = cq, qp_init.srq = srq;
		struct ibv_qp *qp = pd && cq ? ibv_create_qp(pd, &qp_init) : NULL;
		CHECK(!qp || !connect_itself(qp));
		return qp;
	}
}

static int destroy(enum kind kind, void *object)
{
	switch (kind) {
	case CONTEXT: return ibv_close_device(object);
	case PD: return ibv_dealloc_pd(object);
	case TD: return ibv_dealloc_td(object);
	case DM: return ibv_free_dm(object);
	case CHANNEL: return ibv_destroy_comp_channel(object);
	case CQ: return ibv_destroy_cq(object);
	case SRQ: return ibv_destroy_srq(object);
	default: return ibv_destroy_qp(object);
	}
}

/* renew replaces an object, unless it is busy. Who destroys a queue pair uses its CQs. */
static void renew(struct thread *t, enum kind kind)
{
	if (kind == QP)
		for (int i = 0; i < EACH; i++) {
			t->held[t->holds++] = &slots[CQ][i];
			CHECK(!pthread_rwlock_rdlock(&slots[CQ][i].lock));
		}
	struct slot *s = &slots[kind][below(t, EACH)];
	CHECK(!pthread_rwlock_wrlock(&s->lock));
	if (s->object) {
		int error = destroy(kind, s->object);
		CHECK(!error || error == EBUSY);
		count(error ? &busy : &destroyed);
		if (!error)
			s->object = NULL;
	}
	CHECK(!pthread_rwlock_unlock(&s->lock));
	let_go(t);
}

/* fill makes the object of an empty slot. It takes the parents' locks first. */
static void fill(struct thread *t, enum kind kind)
{
	void *object = make(t, kind);
	struct slot *s = &slots[kind][below(t, EACH)];
	CHECK(!pthread_rwlock_wrlock(&s->lock));
	void *surplus = object;
	if (!s->object && object) {
		s->object = object;
		surplus = NULL;
		count(&made);
		if (kind == PD)
			__atomic_store_n(&pd_handle, ((struct ibv_pd *)object)->handle, __ATOMIC_RELAXED);
		if (kind == DM)
			__atomic_store_n(&dm_handle, ((struct ibv_dm *)object)->handle, __ATOMIC_RELAXED);
	}
	CHECK(!pthread_rwlock_unlock(&s->lock));
	for (int error = surplus != NULL; error;) { /* a handle that somebody knows may be its */
		error = destroy(kind, surplus);
		CHECK(!error || error == EBUSY);
	}
	let_go(t);
}

static int dereg_mr(void *mr) { return ibv_dereg_mr(mr); }
static int destroy_ah(void *ah) { return ibv_destroy_ah(ah); }
static int dealloc_mw(void *mw) { return ibv_dealloc_mw(mw); }
static int dealloc_pd(void *pd) { return ibv_dealloc_pd(pd); }
static int close_device(void *c) { return ibv_close_device(c); }
static int unimport_dm(void *dm) { return ibv_unimport_dm(dm), 0; }
static int unimport_pd(void *pd) { return ibv_unimport_pd(pd), 0; }
static int free_buffer(void *buffer) { return free_buf(buffer), 0; }

/* spawn makes a child. Handles and descriptors are used without locks: their objects may go meanwhile. */
static struct child spawn(struct thread *t)
{
	static uint8_t memory[PAGE];
	struct ibv_context *c;
	struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1, .hop_limit = 1}};
	void *pd, *td, *dm, *buffer = NULL;
	int fd;
	switch (below(t, 9)) {
	case 0: return (struct child){(pd = use(t, PD)) ? ibv_reg_mr(pd, memory, PAGE, 0) : NULL, dereg_mr};
	case 1:
		pd = use(t, PD), dm = use(t, DM);
		return (struct child){pd && dm ? ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED) : NULL, dereg_mr};
	case 2:
		CHECK(!ibv_query_gid(context, 1, 1, &to.grh.dgid));
		return (struct child){(pd = use(t, PD)) ? ibv_create_ah(pd, &to) : NULL, destroy_ah};
	case 3: return (struct child){(pd = use(t, PD)) ? ibv_alloc_mw(pd, IBV_MW_TYPE_2) : NULL, dealloc_mw};
	case 4:
		pd = use(t, PD), td = use(t, TD);
		return (struct child){pd && td ? ibv_alloc_parent_domain(context, &(struct ibv_parent_domain_init_attr){.pd = pd, .td = td}) : NULL, dealloc_pd};
	case 5:
		if ((pd = use(t, PD)) && !alloc_buf(pd, 100, &buffer))
			buffer = NULL;
		return (struct child){buffer, free_buffer};
	case 6:
		if ((pd = ibv_import_pd(context, __atomic_load_n(&pd_handle, __ATOMIC_RELAXED)))) {
			struct ibv_mr *mr = ibv_reg_mr(pd, memory, PAGE, 0);
			CHECK(mr && !ibv_dereg_mr(mr)); /* nobody frees an imported domain */
		}
		return (struct child){pd, unimport_pd};
	case 7: return (struct child){ibv_import_dm(context, __atomic_load_n(&dm_handle, __ATOMIC_RELAXED)), unimport_dm};
	default:
		c = use(t, CONTEXT);
		fd = c ? dup(c->cmd_fd) : -1;
		let_go(t);
		c = fd >= 0 ? ibv_import_device(fd) : NULL;
		if (!c)
			close(fd);
		return (struct child){c, close_device};
	}
}

static void add_child(struct thread *t)
{
	if (t->has == MOST_CHILDREN)
		return;
	t->children[t->has] = spawn(t);
	if (t->children[t->has].object) {
		t->has++;
		count(&made);
	}
	let_go(t);
}

static void drop_child(struct thread *t)
{
	if (!t->has)
		return;
	struct child *c = &t->children[below(t, t->has)];
	CHECK(!c->destroy(c->object));
	*c = t->children[--t->has];
	count(&destroyed);
}

/* events takes an asynchronous event. Its object may be of any slot. */
static void events(struct thread *t)
{
	struct ibv_async_event event;
	for (int i = 0; i < KINDS * EACH; i++) {
		t->held[t->holds++] = &slots[0][i];
		CHECK(!pthread_rwlock_rdlock(&slots[0][i].lock));
	}
	if (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
}

static void use_queues(struct thread *t)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_send_wr write = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_recv_wr recv = {0}, *bad_recv;
	struct ibv_wc wcs[8];
	struct ibv_cq *cq;
	struct ibv_srq_attr srq_attr, limit = {.srq_limit = 1};
	void *object, *its;
	switch (below(t, 8)) {
	case 0:
	case 1:
		if ((object = use(t, QP)))
			ibv_post_send(object, &write, &bad); /* refused if the queue is full, or after an error */
		break;
	case 2:
		if ((object = use(t, QP)))
			CHECK(!ibv_query_qp(object, &attr, IBV_QP_STATE, &init));
		break;
	case 3:
		if ((object = use(t, QP)) && !below(t, 4))
			CHECK(!ibv_modify_qp(object, &attr, IBV_QP_STATE));
		break;
	case 4:
		if ((object = use(t, CQ)))
			CHECK(ibv_poll_cq(object, 8, wcs) >= 0 && !ibv_req_notify_cq(object, 0));
		break;
	case 5:
		if ((object = use(t, CQ)))
			CHECK(!ibv_resize_cq(object, CQES + below(t, 100)));
		break;
	case 6:
		if ((object = use(t, CHANNEL)) && !ibv_get_cq_event(object, &cq, &its))
			ibv_ack_cq_events(cq, 1);
		break;
	default:
		if ((object = use(t, SRQ))) {
			ibv_post_srq_recv(object, &recv, &bad_recv); /* refused if it is full */
			CHECK(!ibv_query_srq(object, &srq_attr) && !ibv_modify_srq(object, &limit, IBV_SRQ_LIMIT));
		}
	}
}

static void use_others(struct thread *t)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	char text[64];
	void *object;
	int fd;
	switch (below(t, 4)) {
	case 0:
		if ((object = use(t, CONTEXT)))
			CHECK(!ibv_query_port(object, 1, &port) && !ibv_query_gid(object, 1, 1, &gid));
		break;
	case 1:
		if ((object = use(t, DM)))
			CHECK(!ibv_memcpy_from_dm(text, object, 0, sizeof text));
		break;
	case 2: {
		struct ibv_device **list = ibv_get_device_list(NULL);
		CHECK(list && list[0] == device);
		ibv_free_device_list(list);
		break;
	}
	default:
		fd = open("/sys/class/infiniband/soft0/ports/1/gids/1", O_RDONLY | O_CLOEXEC);
		CHECK(fd >= 0 && read(fd, text, sizeof text) > 0 && strncmp(text, "0000:0000:0000:0000:0000:0000", 29));
		close(fd);
	}
}

static void *walk(void *arg)
{
	struct thread *t = arg;
	for (long i = 0; i < t->steps; i++) {
		switch (below(t, 8)) {
		case 0: renew(t, below(t, KINDS)); break;
		case 1: fill(t, below(t, KINDS)); break;
		case 2: add_child(t); break;
		case 3: drop_child(t); break;
		case 4: events(t); break;
		case 5: use_others(t); break;
		default: use_queues(t);
		}
		count(&used);
		let_go(t);
	}
	while (t->has)
		drop_child(t);
	return NULL;
}

int main(int argc, char **argv)
{
	CHECK(argc == 3);
	CHECK(context = open_device());
	device = context->device;
	CHECK(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
	alloc_buf = (void *(*)(struct ibv_pd *, size_t, void **))dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	free_buf = (int (*)(void *))dlsym(RTLD_DEFAULT, "ibv_free_buf");
	CHECK(alloc_buf && free_buf);
	for (int i = 0; i < KINDS * EACH; i++)
		CHECK(!pthread_rwlock_init(&slots[0][i].lock, NULL));
	struct thread threads[THREADS] = {0};
	for (int i = 0; i < THREADS; i++) {
		threads[i].state = (strtoull(argv[1], NULL, 10) * THREADS + i) * 0x9e3779b97f4a7c15 + 1;
		threads[i].steps = strtol(argv[2], NULL, 10);
		CHECK(!pthread_create(&threads[i].id, NULL, walk, &threads[i]));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(threads[i].id, NULL));
	for (int kind = KINDS - 1; kind >= 0; kind--)
		for (int i = 0; i < EACH; i++)
			CHECK(!slots[kind][i].object || !destroy(kind, slots[kind][i].object));
	CHECK(!ibv_close_device(context));
	printf("ok: %ld made, %ld destroyed, %ld busy, %ld steps\n", made, destroyed, busy, used);
	return 0;
}
