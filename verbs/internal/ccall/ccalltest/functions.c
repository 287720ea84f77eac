//go:build linux && cgo

/* See functions.go. */
#include <alloca.h>
#include <errno.h>
#include <time.h>

#include "functions.h"

FUNCTION(nothing)
{
	return 0;
}

FUNCTION(polynomial)
{
	*(uint64_t *)p += 1;
	return a + 10 * b + 100 * c - 1000 * d;
}

FUNCTION(misaligned)
{
	volatile char at __attribute__((aligned(16))) = 0;

	return (uintptr_t)&at % 16 | (uintptr_t)__builtin_frame_address(0) % 16;
}

FUNCTION(set_errno)
{
	int was = errno;

	errno = a;
	return was;
}

FUNCTION(use_stack)
{
	volatile char *bytes = alloca(a);

	for (uintptr_t i = a; i > 0; i--)
		bytes[i - 1] = i;
	return bytes[0] + bytes[a - 1];
}

FUNCTION(work)
{
	struct timespec t;
	int64_t end = 0, now;

	do {
		clock_gettime(CLOCK_MONOTONIC, &t);
		now = t.tv_sec * 1000000000LL + t.tv_nsec;
		if (!end)
			end = now + a;
	} while (now < end);
	return b;
}

FUNCTION(crash)
{
	return *(volatile int *)a;
}
