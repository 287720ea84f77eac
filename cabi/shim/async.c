/*
 * Asynchronous events: a pipe of records for each context. An object may be destroyed only after
 * its events that were reported have been acknowledged; those that were not are taken out.
 */
#include "shim.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

struct record {
	uint64_t element; /* the object, or the number of a port */
	uint32_t type, reserved;
};

/* counters returns where the events of an object are counted; NULL: a port's need no count. */
static uint32_t *counters(const struct ibv_async_event *event, unsigned **reported, pthread_mutex_t **mutex,
			  pthread_cond_t **cond)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR: {
		struct ibv_cq *cq = event->element.cq;
		*reported = &((struct cq *)cq)->async_reported;
		*mutex = &cq->mutex;
		*cond = &cq->cond;
		return &cq->async_events_completed;
	}
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED: {
		struct ibv_srq *srq = event->element.srq;
		*reported = &((struct srq *)srq)->reported;
		*mutex = &srq->mutex;
		*cond = &srq->cond;
		return &srq->events_completed;
	}
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED: {
		struct ibv_qp *qp = event->element.qp;
		*reported = &((struct qp *)qp)->reported;
		*mutex = &qp->mutex;
		*cond = &qp->cond;
		return &qp->events_completed;
	}
	default:
		return NULL; /* also those that the software device does not have */
	}
}

/* take takes the next event, as pipe_take. */
static int take(struct context *c, struct ibv_async_event *event)
{
	int cancel;
	struct record record;
	unsigned *reported;
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&c->async->lock);
	int n = pipe_take(c->verbs.context.async_fd, &record, sizeof record);
	if (n > 0) {
		event->event_type = record.type;
		event->element.cq = (void *)(uintptr_t)record.element; /* the pointers have the same place */
		if (counters(event, &reported, &mutex, &cond))
			++*reported;
		else
			event->element.port_num = record.element;
	}
	pthread_mutex_unlock(&c->async->lock);
	pthread_setcancelstate(cancel, NULL);
	return n;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	UNLESS_OURS(context, ibv_get_async_event, context, event);
	struct context *c = context_of(context);
	struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
	if (lost(c)) {
		errno = EIO;
		return -1;
	}
	int n, before = errno;
	while ((n = take(c, event)) == 0) {
		if (fcntl(context->async_fd, F_GETFL) & O_NONBLOCK) {
			errno = EAGAIN;
			return -1;
		}
		if (poll(&ready, 1, -1) < 0 && (errno != EINTR || !signals_restart()))
			return -1;
	}
	if (n < 0)
		return -1;
	errno = before;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	unsigned *reported;
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
	uint32_t *completed = counters(event, &reported, &mutex, &cond);
	/* A context is the first member of each object. */
	struct ibv_context *context = completed ? *(struct ibv_context **)event->element.cq : NULL;
	if (!context || !ours(context)) {
		void (*real)(struct ibv_async_event *) = real_symbol("ibv_ack_async_event", false);
		if (real)
			real(event);
		return;
	}
	if (lost(context_of(context)))
		return;
	pthread_mutex_lock(mutex);
	++*completed;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

/*
 * All records are read, and then those of other objects are written again. A full pipe has room for a
 * record only when all bytes of a page are read. No event may come between: those of one object stay in
 * order.
 */
void async_forget(struct context *c, void *object)
{
	LEAVE_ERRNO;
	int cancel;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&c->async->lock);
	core_of(c)->rv_hold_events(c->handle, true);
	int waiting = pipe_records(c->verbs.context.async_fd, sizeof(struct record)), n = 0;
	struct record *records = waiting > 0 ? malloc(waiting * sizeof *records) : NULL;
	while (records && n < waiting && pipe_take(c->verbs.context.async_fd, &records[n], sizeof *records) > 0)
		n++;
	for (int i = 0; i < n; i++)
		if (records[i].element != (uintptr_t)object && write(c->async_fd, &records[i], sizeof *records) < 0)
			break; /* the program has closed the descriptor */
	free(records);
	core_of(c)->rv_hold_events(c->handle, false);
	pthread_mutex_unlock(&c->async->lock);
	pthread_setcancelstate(cancel, NULL);
}

void await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed, const unsigned *reported)
{
	pthread_mutex_lock(mutex);
	while ((int)(*completed - *reported) < 0)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
