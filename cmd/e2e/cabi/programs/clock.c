/* Exits while the core cannot answer, and the wall clock is set back by an hour. */
#include "pair.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/syscall.h>

static bool ending;

/* The wall clock goes on from an hour ago when the library has read it. */
int clock_gettime(clockid_t clock, struct timespec *t)
{
	int error = syscall(SYS_clock_gettime, clock, t);
	if (ending && clock == CLOCK_REALTIME)
		t->tv_sec += 3600;
	return error;
}

static void *never(void *arg)
{
	pause();
	return arg;
}

/* A thread that the library makes at the end never does its work. */
int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*run)(void *), void *restrict arg)
{
	__typeof__(&pthread_create) next = (__typeof__(&pthread_create))dlsym(RTLD_NEXT, "pthread_create");
	return next(thread, attr, ending ? never : run, arg);
}

int main(void)
{
	CHECK(open_device());
	puts("ok");
	fflush(stdout);
	ending = true;
	return 0;
}
