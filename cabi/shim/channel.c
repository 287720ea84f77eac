/*
 * Completion channels. Each is a pipe of records as the kernel's, so programs may poll() and
 * read() its descriptor. A thread in ibv_get_cq_event also waits for packets and receives them
 * itself: no other thread must be woken.
 *
 * Records of events that do not fit into the pipe are counted by the core, and written when there
 * is room again. Those of a destroyed CQ are taken out of the pipe.
 */
#include "shim.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

int pipe_new(int ends[2])
{
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	return 0;
}

int pipe_take(int fd, void *record, size_t size)
{
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	int n = poll(&ready, 1, 0);
	if (n > 0)
		n = read(fd, record, size) == (ssize_t)size ? 1 : -1;
	return n;
}

int pipe_records(int fd, size_t size)
{
	int waiting = 0;
	return ioctl(fd, FIONREAD, &waiting) ? 0 : waiting / (int)size;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	UNLESS_OURS(context, ibv_create_comp_channel, context);
	if (lost(context_of(context)))
		return null(EIO);
	struct channel *channel = calloc(1, sizeof *channel);
	if (!channel)
		return NULL;
	int pipe[2], error = pipe_new(pipe);
	if (error)
		return undone(channel, error);
	channel->verbs.context = context;
	channel->verbs.fd = pipe[0];
	channel->shared.fd = pipe[1];
	pthread_mutex_init(&channel->lock, NULL);
	return &channel->verbs;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *v)
{
	UNLESS_OURS(v->context, ibv_destroy_comp_channel, v);
	struct channel *channel = (struct channel *)v;
	if (lost(context_of(v->context)))
		return failed(EIO);
	unsigned users = held(channel_users(v));
	if (users)
		return in_use("ibv_destroy_comp_channel", "channel", users);
	close(v->fd);
	close(channel->shared.fd);
	pthread_mutex_destroy(&channel->lock);
	free(channel);
	return 0;
}

void channel_join(struct channel *channel, struct cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	cq->next = channel->cqs;
	channel->cqs = cq;
	__atomic_store_n(&channel->driver, cq->handle, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&channel->lock);
}

/*
 * settle waits until no thread drives that began before. Threads that begin later count elsewhere, so
 * they cannot keep it waiting. Both counts are waited for in turn, because a thread may have chosen
 * its count before an earlier settle and counted after that. The caller holds the lock.
 */
static void settle(struct channel *channel)
{
	for (int i = 0; i < 2; i++) {
		unsigned before = __atomic_fetch_xor(&channel->count, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(&channel->driving[before], __ATOMIC_SEQ_CST))
			sched_yield();
	}
}

void channel_leave(struct channel *channel, struct cq *cq)
{
	pthread_mutex_lock(&channel->lock);
	struct cq **p = &channel->cqs;
	while (*p != cq)
		p = &(*p)->next;
	*p = cq->next;
	__atomic_store_n(&channel->driver, channel->cqs ? channel->cqs->handle : 0, __ATOMIC_SEQ_CST);
	settle(channel);
	pthread_mutex_unlock(&channel->lock);
}

/* Each record is read, and written behind the others if it is to be kept. */
void channel_forget(struct channel *channel, struct cq *cq)
{
	LEAVE_ERRNO;
	int cancel;
	uint64_t record;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&channel->lock);
	for (int n = pipe_records(channel->verbs.fd, sizeof record); n > 0; n--) {
		if (pipe_take(channel->verbs.fd, &record, sizeof record) <= 0)
			break;
		struct cq *of = (struct cq *)(uintptr_t)record;
		if (of != cq && write(channel->shared.fd, &record, sizeof record) < 0)
			core_of(of->context)->rv_renotify(of->handle, 1);
	}
	pthread_mutex_unlock(&channel->lock);
	pthread_setcancelstate(cancel, NULL);
}

static void attend_no_more(void *context) { attend(context, -1); }

/* drive receives packets on behalf of one of the channel's CQs. */
static void drive(struct context *c, struct channel *channel)
{
	int *driving = &channel->driving[__atomic_load_n(&channel->count, __ATOMIC_SEQ_CST)];
	__atomic_add_fetch(driving, 1, __ATOMIC_SEQ_CST);
	rv_handle cq = __atomic_load_n(&channel->driver, __ATOMIC_SEQ_CST);
	if (cq)
		core_of(c)->rv_drive(cq);
	__atomic_sub_fetch(driving, 1, __ATOMIC_SEQ_CST);
}

/*
 * await receives packets until the channel has a record. It returns false after a signal. The
 * thread may be cancelled while it waits.
 */
static bool await(struct context *c, struct channel *channel)
{
	const int retry = 10; /* milliseconds: a CQ may join the channel */
	struct pollfd ready[] = {{.fd = channel->verbs.fd, .events = POLLIN}, {.fd = c->device->packets_fd, .events = POLLIN}};
	volatile bool interrupted = false; /* as pthread_cleanup_push wants it */
	attend(c, 1);
	pthread_cleanup_push(attend_no_more, c);
	while (!ready[0].revents && !interrupted) {
		bool drives = __atomic_load_n(&channel->driver, __ATOMIC_RELAXED);
		int n = poll_first(&channel->vain, ready, drives ? 2 : 1);
		if (n)
			pthread_testcancel(); /* poll_first is no cancellation point, and packets may always come soon */
		else
			n = poll(ready, drives ? 2 : 1, drives ? -1 : retry);
		if (n < 0)
			interrupted = errno != EINTR || !signals_restart();
		else if (n > 0 && drives && !ready[0].revents)
			drive(c, channel);
	}
	pthread_cleanup_pop(true);
	return !interrupted;
}

/* take takes the next record, as pipe_take. The event counts as reported. */
static int take(struct context *c, struct channel *channel, struct cq **cq)
{
	int cancel;
	uint64_t record;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&channel->lock);
	int n = pipe_take(channel->verbs.fd, &record, sizeof record);
	if (n > 0) {
		*cq = (struct cq *)(uintptr_t)record;
		(*cq)->reported++;
	}
	if (__atomic_load_n(&channel->shared.missed, __ATOMIC_SEQ_CST))
		for (struct cq *q = channel->cqs; q; q = q->next)
			core_of(c)->rv_renotify(q->handle, 0);
	pthread_mutex_unlock(&channel->lock);
	pthread_setcancelstate(cancel, NULL);
	return n;
}

int ibv_get_cq_event(struct ibv_comp_channel *v, struct ibv_cq **cq, void **cq_context)
{
	UNLESS_OURS(v->context, ibv_get_cq_event, v, cq, cq_context);
	struct channel *channel = (struct channel *)v;
	struct context *c = context_of(v->context);
	struct cq *q = NULL;
	if (lost(c)) {
		errno = EIO;
		return -1;
	}
	bool waits = !(fcntl(v->fd, F_GETFL) & O_NONBLOCK);
	int n = 0, before = errno;
	while (n == 0) {
		if (waits && !await(c, channel))
			return -1;
		n = take(c, channel, &q);
		if (n == 0 && !waits) {
			errno = EAGAIN;
			return -1;
		}
	}
	if (n < 0)
		return -1;
	*cq = (struct ibv_cq *)&q->verbs;
	*cq_context = q->verbs.cq_context;
	errno = before;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	UNLESS_OURS(cq->context, ibv_ack_cq_events, cq, n);
	if (lost(context_of(cq->context)))
		return;
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}
