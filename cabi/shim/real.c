/*
 * The real libibverbs, if the system has one. Its devices stay visible and usable.
 */
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>

static void *library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* dlopen would load this library (loader.c). */
static void open_library(void) { library = dlmopen(LM_ID_BASE, "libibverbs.so.1", RTLD_NOW | RTLD_LOCAL); }

void *real_symbol(const char *name, bool needed)
{
	LEAVE_ERRNO;
	pthread_once(&once, open_library);
	void *symbol = library ? dlsym(library, name) : NULL;
	if (!symbol && needed) {
		fprintf(stderr, "rawverbs: the program calls %s on a device of libibverbs.so.1, which has no such function; "
				"try: a newer libibverbs (package libibverbs1)\n", name);
		abort();
	}
	return symbol;
}

void *real_version(const char *name, const char *node)
{
	LEAVE_ERRNO;
	pthread_once(&once, open_library);
	return library ? dlvsym(library, name, node) : NULL;
}
