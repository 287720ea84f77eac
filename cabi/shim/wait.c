/*
 * How a thread waits for packets. It polls for a moment, because the peer's packets often come after a few
 * microseconds. Then it sleeps, or lets others run (docs/design/waiting.md).
 */
#include "shim.h"

#include <sched.h>
#include <time.h>

/* How long a thread polls, as softroce/await.go has it. */
#define POLL_NS 50000

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static bool several_processors(void)
{
	static int known;
	int n = __atomic_load_n(&known, __ATOMIC_RELAXED);
	cpu_set_t set;
	if (!n) {
		n = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
		__atomic_store_n(&known, n, __ATOMIC_RELAXED);
	}
	return n > 1;
}

/*
 * This is patience of softroce/await.go, with the same clock, so that both ends poll at the same time. Threads that race may
 * lose a count. A thread is not cancelled in here: AddressSanitizer keeps a frame's marks on the stack if the cancelled frame
 * has no cleanup handler.
 */
int poll_first(unsigned *vain, struct pollfd *fds, int n)
{
	const unsigned vain_cost = 2, vain_step = 8, most_vain = 10 * vain_step, slot_bits = 20;
	unsigned v = __atomic_load_n(vain, __ATOMIC_RELAXED);
	if (!several_processors() || now_ns(CLOCK_REALTIME) >> slot_bits & ((1u << v / vain_step) - 1))
		return 0;
	uint64_t began = now_ns(CLOCK_MONOTONIC);
	int ready, cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	do
		ready = poll(fds, n, 0);
	while (!ready && now_ns(CLOCK_MONOTONIC) - began < POLL_NS);
	pthread_setcancelstate(cancel, NULL);
	if (ready > 0)
		v -= v > 0;
	else if (!ready) /* a signal says nothing */
		v = v + vain_cost < most_vain ? v + vain_cost : most_vain;
	__atomic_store_n(vain, v, __ATOMIC_RELAXED);
	return ready;
}

void attend(struct context *c, int by) { __atomic_add_fetch(&c->device->attending, by, __ATOMIC_SEQ_CST); }

/* await_packets must not be a cancellation point, because ibv_poll_cq is not. The standby thread leaves the packets to this thread. */
static void await_packets(struct context *c)
{
	const int rest = 1; /* milliseconds; not longer, because other threads may complete something */
	int cancel;
	struct pollfd packets = {.fd = c->device->packets_fd, .events = POLLIN};
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	attend(c, 1);
	poll(&packets, 1, rest);
	attend(c, -1);
	pthread_setcancelstate(cancel, NULL);
}

__thread struct idle idle;

/*
 * found_nothing lets others run; they are, perhaps, the peer. Within a stream of bytes the thread sleeps after POLL_NS until
 * packets arrive, unless other threads poll the device too: they may receive what this thread waits for.
 * Between single messages waking up would take longer than the wait, so the thread yields. Yields that take long become
 * rare. This is yields of softroce/await.go.
 */
void found_nothing(struct context *c, enum rv_traffic traffic)
{
	const unsigned yield_after = 8, rarest = 10;
	const uint64_t dear_ns = 1000000;
	if (traffic == RV_RECEIVED) {
		idle.polls = 0;
		return;
	}
	uint64_t now = now_ns(CLOCK_MONOTONIC);
	if (idle.polls++ == 0)
		idle.since = now;
	if (now - idle.since >= POLL_NS) {
		uintptr_t me = (uintptr_t)&idle;
		bool alone = __atomic_exchange_n(&c->device->poller, me, __ATOMIC_RELAXED) == me;
		if (traffic == RV_STREAM && alone) {
			await_packets(c);
			return;
		}
	}
	if (idle.polls % (yield_after << idle.rare))
		return;
	sched_yield();
	if (now_ns(CLOCK_MONOTONIC) - now > dear_ns)
		idle.rare += idle.rare < rarest;
	else
		idle.rare -= idle.rare > 0;
}
