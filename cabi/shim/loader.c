/*
 * Programs that load libibverbs with dlopen, as NCCL does. They get this library instead, so that
 * dlsym and dlvsym find its functions: shim.map has libibverbs' version nodes.
 */
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>

static bool is_libibverbs(const char *file)
{
	const char *slash = strrchr(file, '/');
	return !strncmp(slash ? slash + 1 : file, "libibverbs.so", strlen("libibverbs.so"));
}

/* The path of this library. */
static const char *self(void)
{
	static Dl_info info;
	return info.dli_fname || dladdr(&core_generation, &info) ? info.dli_fname : NULL;
}

static void *(*next_dlopen)(const char *file, int mode);

__attribute__((constructor)) static void loader_init(void)
{
	if (!next_dlopen)
		next_dlopen = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");
}

/*
 * The last call must be a tail call (-O2): dlopen looks at its return address for the caller,
 * whose RPATH and namespace count.
 */
__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
	loader_init();
	return next_dlopen(file && is_libibverbs(file) && self() ? self() : file, mode);
}
