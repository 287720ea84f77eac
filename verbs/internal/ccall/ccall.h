/* The argument that ccall.Call passes to a C function. */
#ifndef RAWVERBS_CCALL_H
#define RAWVERBS_CCALL_H

#include <stdint.h>

struct ccall_args {
	uintptr_t a, b, c, d;
	void *p;
	int64_t result; /* the function sets this */
};

typedef void ccall_fn(struct ccall_args *args);

#endif
