//go:build linux && cgo && !nolibibverbs

/*
 * libibverbs, loaded when a device is first asked for. A binary is not linked
 * with it, so that it starts on a machine without it and has the other providers
 * there.
 *
 * Each function that ibv_names.h lists is defined here, under the symbol that the
 * list gives it, and passes its call on to the library's own. The definitions are
 * hidden: the libraries that the process loads cannot call them.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include "ibv_names.h"
#include "ibv_load.h"

/* What verbs.h wraps in macros is defined here under its plain name. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define POINTER_F(ret, fail, name, params, args) static ret(*p_##name) params;
#define POINTER_V(name, params, args) static void(*p_##name) params;
RV_FUNCTIONS(POINTER_F, POINTER_V)

#define HIDDEN __attribute__((visibility("hidden")))

#define DEFINE_F(ret, fail, name, params, args)                                \
	HIDDEN ret name params                                                     \
	{                                                                          \
		if (p_##name)                                                          \
			return p_##name args;                                              \
		errno = EOPNOTSUPP;                                                    \
		return fail;                                                           \
	}
#define DEFINE_V(name, params, args)                                           \
	HIDDEN void name params                                                    \
	{                                                                          \
		if (p_##name)                                                          \
			p_##name args;                                                     \
	}
RV_FUNCTIONS(DEFINE_F, DEFINE_V)

#define FIND_F(ret, fail, name, params, args) *(void **)&p_##name = dlsym(library, #name);
#define FIND_V(name, params, args) FIND_F(void, , name, params, args)

HIDDEN const char *rv_load(void)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	if (!library)
		return dlerror();
	RV_FUNCTIONS(FIND_F, FIND_V)
	return NULL;
}
