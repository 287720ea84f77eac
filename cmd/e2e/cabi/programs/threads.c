/* Threads that use the device at the same time. The argument selects the case. */
#define post_recv shim_post_recv /* pair.h has another */
#include "../../../../cabi/shim/shim.h"
#undef post_recv

#include "pair.h"

#include <pthread.h>
#include <signal.h>

enum { THREADS = 4, ROUNDS = 2000 };

static struct end a, b; /* shared */
static int posted, completed; /* of all threads */

static void *separate(void *context)
{
	struct end x, y;
	pair_on(context, &x, &y);
	for (int i = 0; i < ROUNDS / 10; i++)
		exchange(&x, &y, 1 + i);
	free_end(&x);
	free_end(&y);
	return NULL;
}

/* All threads post to one queue pair and poll its CQ. */
static void *shared(void *arg)
{
	(void)arg;
	for (double limit = now() + LIMIT; __atomic_load_n(&completed, __ATOMIC_SEQ_CST) < THREADS * ROUNDS && now() < limit;) {
		struct ibv_wc wc[4];
		int mine = __atomic_fetch_add(&posted, 1, __ATOMIC_SEQ_CST);
		if (mine < THREADS * ROUNDS)
			while (post(&a, IBV_WR_RDMA_WRITE, &b, 64, mine))
				CHECK(errno != EIO);
		for (int n = ibv_poll_cq(a.cq, 4, wc), i = 0; i < n; i++) {
			CHECK(wc[i].status == IBV_WC_SUCCESS);
			__atomic_add_fetch(&completed, 1, __ATOMIC_SEQ_CST);
		}
	}
	return NULL;
}

/* Threads arm one CQ, wait for its channel's events and acknowledge them. */
static void *waiting(void *arg)
{
	(void)arg;
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;
	for (;;) {
		CHECK(!ibv_get_cq_event(a.channel, &cq, &context));
		ibv_ack_cq_events(cq, 1);
		CHECK(!ibv_req_notify_cq(cq, 0));
		for (int n; (n = ibv_poll_cq(cq, 1, &wc)) != 0;) {
			CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
			if (__atomic_add_fetch(&completed, 1, __ATOMIC_SEQ_CST) == ROUNDS)
				return NULL;
		}
	}
}

static void events(void)
{
	pthread_t threads[THREADS];
	CHECK(!ibv_req_notify_cq(a.cq, 0));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, waiting, NULL));
	for (int i = 0; i < ROUNDS; i++) {
		/* A place in the send queue is free before its completion is polled, so a CQ may overflow. */
		while (i - __atomic_load_n(&completed, __ATOMIC_SEQ_CST) >= 4 * DEPTH || post(&a, IBV_WR_RDMA_WRITE, &b, 64, i))
			sched_yield();
		if (i % 64 == 0)
			usleep(500);
	}
	for (double limit = now() + LIMIT; __atomic_load_n(&completed, __ATOMIC_SEQ_CST) < ROUNDS && now() < limit;)
		usleep(1000);
	CHECK(completed == ROUNDS);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_cancel(threads[i]) && !pthread_join(threads[i], NULL));
}

static void *get_event(void *channel)
{
	struct ibv_cq *cq;
	void *context;
	return (void *)(intptr_t)ibv_get_cq_event(channel, &cq, &context);
}

/* attending returns the number of threads that the standby thread leaves the packets to. */
static int attending(void) { return __atomic_load_n(&context_of(a.context)->device->attending, __ATOMIC_SEQ_CST); }

/* A cancelled thread must not count as one that receives: else the standby thread would leave each packet to it for a while. */
static void cancel(void)
{
	for (int i = 0; i < 8; i++) {
		pthread_t thread;
		void *result;
		CHECK(!pthread_create(&thread, NULL, get_event, a.channel));
		for (double limit = now() + LIMIT; attending() == 0 && now() < limit;)
			usleep(100);
		CHECK(attending() == 1);
		usleep(1000 * i); /* the wait begins with polls, and then the thread sleeps */
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
		CHECK(attending() == 0);
	}
	exchange(&a, &b, 100);
}

static bool over;

/* write_on WRITEs from b to a without a pause, until over. */
static void *write_on(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&over, __ATOMIC_SEQ_CST)) {
		CHECK(!post(&b, IBV_WR_RDMA_WRITE, &a, 8, 1));
		CHECK(completion(b.cq).status == IBV_WC_SUCCESS);
	}
	return NULL;
}

/* A thread whose device always has packets for others can be cancelled, too. */
static void cancel_busy(void)
{
	pthread_t thread, writer;
	void *result;
	CHECK(!pthread_create(&writer, NULL, write_on, NULL));
	for (int i = 0; i < 8; i++) {
		CHECK(!pthread_create(&thread, NULL, get_event, a.channel));
		usleep(1000 * i);
		CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);
	}
	__atomic_store_n(&over, true, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(writer, NULL));
}

/* A signal ends a wait unless the handler asks for a restart. */
static volatile sig_atomic_t alarms;
static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

/* finish ends the other thread's wait after three signals. */
static void *finish(void *arg)
{
	(void)arg;
	for (double limit = now() + LIMIT; alarms < 3 && now() < limit;)
		usleep(1000);
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, &b, 8, 1));
	return NULL;
}

static void interrupt(void)
{
	struct ibv_cq *cq;
	void *context;
	pthread_t thread;
	sigset_t alarm_only;
	struct sigaction act = {.sa_handler = on_alarm};
	CHECK(!sigaction(SIGALRM, &act, NULL));
	ualarm(50000, 50000); /* again and again: the first may come before the wait */
	CHECK(ibv_get_cq_event(a.channel, &cq, &context) == -1 && errno == EINTR && alarms > 0);
	ualarm(0, 0);
	alarms = 0;
	act.sa_flags = SA_RESTART;
	CHECK(!sigaction(SIGALRM, &act, NULL));
	CHECK(!ibv_req_notify_cq(a.cq, 0));
	sigemptyset(&alarm_only);
	sigaddset(&alarm_only, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm_only, NULL); /* for the thread, too */
	CHECK(!pthread_create(&thread, NULL, finish, NULL));
	pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
	ualarm(50000, 50000);
	CHECK(!ibv_get_cq_event(a.channel, &cq, &context) && cq == a.cq && alarms > 0);
	ualarm(0, 0);
	ibv_ack_cq_events(cq, 1);
	CHECK(!pthread_join(thread, NULL));
}

static void *one_exchange(void *context)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	(void)context;
	pthread_mutex_lock(&one);
	exchange(&a, &b, 100);
	pthread_mutex_unlock(&one);
	return NULL;
}

/* Threads import a domain by a handle whose domain another thread frees. One that is imported must work. */
static uint32_t domain;
static bool freed;
static void *import(void *context)
{
	static uint8_t memory[PAGE];
	while (!__atomic_load_n(&freed, __ATOMIC_SEQ_CST)) {
		struct ibv_pd *pd = ibv_import_pd(context, __atomic_load_n(&domain, __ATOMIC_SEQ_CST));
		if (!pd)
			continue;
		struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, 0);
		CHECK(mr && !ibv_dereg_mr(mr));
		ibv_unimport_pd(pd);
	}
	return NULL;
}

static void imports(struct ibv_context *context)
{
	pthread_t threads[2];
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_create(&threads[i], NULL, import, context));
	for (int i = 0; i < 20 * ROUNDS; i++) {
		struct ibv_pd *pd = ibv_alloc_pd(context);
		CHECK(pd);
		__atomic_store_n(&domain, pd->handle, __ATOMIC_SEQ_CST);
		for (int error = EBUSY; error;) {
			error = ibv_dealloc_pd(pd);
			CHECK(!error || error == EBUSY);
		}
	}
	__atomic_store_n(&freed, true, __ATOMIC_SEQ_CST);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	struct ibv_context *context = open_device();
	pair_on(context, &a, &b);
	pthread_t threads[THREADS];
	void *(*run)(void *) = !strcmp(argv[1], "separate") ? separate : !strcmp(argv[1], "shared") ? shared : NULL;
	for (int i = 0; run && i < THREADS; i++)
		CHECK(!pthread_create(&threads[i], NULL, run, context));
	for (int i = 0; run && i < THREADS; i++)
		CHECK(!pthread_join(threads[i], NULL));
	if (run == shared)
		CHECK(completed == THREADS * ROUNDS);
	if (!strcmp(argv[1], "events"))
		events();
	else if (!strcmp(argv[1], "cancel"))
		cancel();
	else if (!strcmp(argv[1], "cancel-busy"))
		cancel_busy();
	else if (!strcmp(argv[1], "interrupt"))
		interrupt();
	else if (!strcmp(argv[1], "imports"))
		imports(context);
	else if (!strcmp(argv[1], "short-lived")) /* each thread that ends gives back what Go had bound to it */
		for (int i = 0; i < 500; i++)
			CHECK(!pthread_create(&threads[0], NULL, one_exchange, context) && !pthread_join(threads[0], NULL));
	else
		CHECK(run);
	free_end(&a);
	free_end(&b);
	CHECK(!ibv_close_device(context));
	puts("ok");
	return 0;
}
