//go:build linux && cgo

/*
 * Threads of Go must not take the program's signals. A thread is born with all signals blocked,
 * but Go unblocks some of them, SIGCHLD and SIGPROF among them. So each thread sends itself a
 * SIGSEGV, which arrives at the moment when Go unblocks it. The shim's handler blocks all again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../core.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);

struct start {
	void *(*run)(void *);
	void *arg;
};

static void *begin(void *p)
{
	struct start s = *(struct start *)p;
	free(p);
	pthread_sigqueue(pthread_self(), SIGSEGV, (union sigval){.sival_ptr = RV_NEW_THREAD});
	return s.run(s.arg);
}

/* The linker calls it for pthread_create (threads.go). */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	struct start *s = malloc(sizeof *s);
	if (!s)
		return EAGAIN;
	*s = (struct start){run, arg};
	int error = __real_pthread_create(thread, attr, begin, s);
	if (error)
		free(s);
	return error;
}
