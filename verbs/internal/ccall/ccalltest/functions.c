//go:build linux && cgo

/* See functions.go. */
#include <errno.h>
#include <signal.h>
#include <time.h>

#include "functions.h"

FUNCTION(polynomial)
{
	*(uint64_t *)args->p += 1;
	args->result = args->a + 10 * args->b + 100 * args->c - 1000 * args->d;
}

FUNCTION(set_errno)
{
	args->result = errno;
	errno = args->a;
}

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

FUNCTION(work)
{
	int64_t end = now() + args->a;

	while (now() < end)
		;
	args->result = args->b;
}

FUNCTION(raise)
{
	args->result = raise(args->a);
}

FUNCTION(fault)
{
	args->result = *(volatile int *)args->a;
}

__attribute__((noinline)) static int64_t deep(volatile int *at, int n)
{
	return n ? deep(at, n - 1) + n : *at;
}

FUNCTION(fault_deep)
{
	args->result = deep((volatile int *)args->a, 10);
}
