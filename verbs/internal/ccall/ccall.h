/* What ccall.Call gives to a C function. */
#ifndef RAWVERBS_CCALL_H
#define RAWVERBS_CCALL_H

#include <stdint.h>

struct ccall_args {
	uintptr_t a, b, c, d;
	void *p;
	int64_t result; /* to be set */
};

typedef void ccall_fn(struct ccall_args *args);

#endif
