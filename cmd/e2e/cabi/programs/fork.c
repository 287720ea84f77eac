/* Children of a program that has the software device open. The argument selects the case. */
#include "pair.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>

/* child runs f in a child, which must end with status 0 within LIMIT. */
static void child(void (*f)(struct end *a, struct end *b), struct end *a, struct end *b)
{
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		alarm(LIMIT); /* kills a child that hangs */
		f(a, b);
		exit(0); /* with destructors */
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		fprintf(stderr, "the child's status is %#x\n", status);
	CHECK(status == 0);
}

/* What only the library has. The device memory is all that the device has. */
static struct ibv_alloc_dm_attr all_dm;
static struct ibv_dm *dm;
static struct ibv_td *td;
static struct ibv_td_init_attr td_init;
static void *(*alloc_buf)(struct ibv_pd *, size_t, void **); /* the headers may not have them */
static void (*free_buf)(void *);
static void *buffer;

static void make_memories(struct end *a)
{
	struct ibv_device_attr_ex attr;
	CHECK(!ibv_query_device_ex(a->context, NULL, &attr));
	all_dm.length = attr.max_dm_size;
	CHECK((dm = ibv_alloc_dm(a->context, &all_dm)) && (td = ibv_alloc_td(a->context, &td_init)));
	alloc_buf = (void *(*)(struct ibv_pd *, size_t, void **))dlvsym(RTLD_DEFAULT, "ibv_alloc_buf", "IBVERBS_1.17");
	free_buf = (void (*)(void *))dlvsym(RTLD_DEFAULT, "ibv_free_buf", "IBVERBS_1.17");
	CHECK(alloc_buf && free_buf && alloc_buf(a->pd, 100, &buffer));
}

static void free_memories(void)
{
	free_buf(buffer);
	CHECK(!ibv_dealloc_td(td) && !ibv_free_dm(dm));
}

static void inherited_memories(struct end *a)
{
	struct ibv_parent_domain_init_attr parent = {.pd = a->pd};
	uint64_t word = 0;
	void *handle;
	struct ibv_dm *own = ibv_alloc_dm(a->context, &all_dm); /* all of it: the parent's does not count */
	CHECK(own && !ibv_memcpy_to_dm(own, 0, &word, sizeof word) && !ibv_free_dm(own));
	CHECK(ibv_memcpy_to_dm(dm, 0, &word, sizeof word) == EIO);
	CHECK(ibv_memcpy_from_dm(&word, dm, 0, sizeof word) == EIO);
	CHECK(!ibv_reg_dm_mr(a->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED) && errno == EIO);
	CHECK(!ibv_import_dm(a->context, dm->handle) && errno == EIO);
	CHECK(ibv_free_dm(dm) == EIO);
	CHECK(!ibv_alloc_td(a->context, &td_init) && errno == EIO);
	CHECK(!ibv_alloc_parent_domain(a->context, &parent) && errno == EIO);
	CHECK(ibv_dealloc_td(td) == EIO);
	CHECK(!alloc_buf(a->pd, 100, &handle) && errno == EIO);
	free_buf(buffer); /* does nothing */
}

/* All that the child inherits answers EIO. Nothing waits: the child would hang. */
static void inherited(struct end *a, struct end *b)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;
	struct ibv_async_event event;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	union ibv_gid gid;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	CHECK(post_recv(a, 1) == EIO);
	CHECK(post(a, IBV_WR_SEND, b, 8, 1) == EIO);
	CHECK(ibv_poll_cq(a->cq, 1, &wc) == -EIO);
	CHECK(ibv_req_notify_cq(a->cq, 0) == EIO);
	CHECK(ibv_get_cq_event(a->channel, &cq, &context) == -1 && errno == EIO);
	CHECK(ibv_get_async_event(a->context, &event) == -1 && errno == EIO);
	CHECK(!ibv_query_device(a->context, &device) && device.max_qp > 0); /* they do not change */
	CHECK(ibv_query_port(a->context, 1, &port) == EIO);
	CHECK(ibv_query_gid(a->context, 1, 1, &gid) == -1 && errno == EIO);
	CHECK(!ibv_alloc_pd(a->context) && errno == EIO);
	CHECK(!ibv_create_comp_channel(a->context) && errno == EIO);
	CHECK(!ibv_create_cq(a->context, 8, NULL, NULL, 0) && errno == EIO);
	CHECK(!ibv_reg_mr(a->pd, a->buf, LENGTH, ACCESS) && errno == EIO);
	inherited_memories(a);
	CHECK(ibv_modify_qp(a->qp, &attr, IBV_QP_STATE) == EIO);
	CHECK(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) == EIO);
	CHECK(ibv_resize_cq(a->cq, 8) == EIO);
	CHECK(ibv_destroy_qp(a->qp) == EIO);
	CHECK(ibv_dereg_mr(a->mr) == EIO);
	CHECK(ibv_destroy_cq(a->cq) == EIO);
	CHECK(ibv_destroy_comp_channel(a->channel) == EIO);
	CHECK(ibv_dealloc_pd(a->pd) == EIO);
	ibv_ack_cq_events(a->cq, 1);
	CHECK(ibv_close_device(a->context) == EIO);
}

/* fresh opens the device once more, in a core of the child's own. */
static void fresh(struct end *a, struct end *b)
{
	struct end x, y;
	struct ibv_context *context = open_device();
	pair_on(context, &x, &y);
	union ibv_gid of_child, of_parent = *(union ibv_gid *)b->buf;
	CHECK(!ibv_query_gid(context, 1, 1, &of_child));
	CHECK(memcmp(&of_child, &of_parent, sizeof of_child)); /* the parent is there, too */
	for (int i = 0; i < 20; i++)
		exchange(&x, &y, 5000);
	make_memories(&x);
	free_memories();
	CHECK(post(a, IBV_WR_SEND, b, 8, 1) == EIO);
	free_end(&x);
	free_end(&y);
	CHECK(!ibv_close_device(context));
}

static void generations(struct end *a, struct end *b)
{
	static int depth;
	struct end x, y;
	for (int fd = 3; fd < 256; fd++)
		close(fd); /* as daemons do; the descriptors have the same numbers in each child */
	pair_on(open_device(), &x, &y);
	exchange(&x, &y, 100);
	memcpy(y.buf, b->buf, 16);
	if (++depth < 4)
		child(generations, &x, &y);
	exchange(&x, &y, 100);
	CHECK(post(a, IBV_WR_SEND, b, 8, 1) == EIO);
}

static void executes(struct end *a, struct end *b)
{
	(void)a;
	(void)b;
	execl("/bin/sh", "sh", "-c", "exec ibv_devices >/dev/null", NULL);
	_exit(1);
}

/* hold keeps the locks of a CQ and of a queue pair busy, so that forks see them held. */
static volatile bool done;
static void *hold(void *arg)
{
	struct end *a = arg;
	struct ibv_wc wc;
	while (!done) {
		ibv_poll_cq(a->cq, 1, &wc);
		post(a, IBV_WR_RDMA_WRITE, a + 1, 8, 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct end ends[2], *a = ends, *b = ends + 1;
	CHECK(argc == 2);
	struct ibv_context *context = open_device();
	pair_on(context, a, b);
	exchange(a, b, 100);
	make_memories(a);
	CHECK(!ibv_query_gid(context, 1, 1, (union ibv_gid *)b->buf));
	if (!strcmp(argv[1], "inherited")) {
		child(inherited, a, b);
	} else if (!strcmp(argv[1], "fresh")) {
		for (int i = 0; i < 20; i++)
			child(fresh, a, b);
	} else if (!strcmp(argv[1], "generations")) {
		child(generations, a, b);
	} else if (!strcmp(argv[1], "exec")) {
		child(executes, a, b);
	} else if (!strcmp(argv[1], "busy")) {
		pthread_t threads[3];
		for (int i = 0; i < 3; i++)
			CHECK(!pthread_create(&threads[i], NULL, hold, a));
		for (int i = 0; i < 100; i++)
			child(inherited, a, b);
		for (int i = 0; i < 5; i++)
			child(fresh, a, b);
		done = true;
		for (int i = 0; i < 3; i++)
			CHECK(!pthread_join(threads[i], NULL));
		puts("ok");
		return 0;
	} else {
		CHECK(!"a case");
	}
	exchange(a, b, 100); /* the parent goes on */
	free_memories();
	free_end(a);
	free_end(b);
	CHECK(!ibv_close_device(context));
	puts("ok");
	return 0;
}
