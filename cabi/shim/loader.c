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

/* self returns the path of this library, or another if it has none. */
static const char *self(const char *other)
{
	Dl_info info;
	return dladdr(&core_generation, &info) && info.dli_fname ? info.dli_fname : other;
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
	return next_dlopen(file && is_libibverbs(file) ? self(file) : file, mode);
}
