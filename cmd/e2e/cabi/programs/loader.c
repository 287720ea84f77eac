/*
 * Loads libibverbs as NCCL does: dlopen, then dlvsym for each function. Standard input has lines
 * with a version and a name. It prints what is missing, and the devices.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	/* Only this program's RPATH leads to plugin.so, so dlopen must know its caller. */
	if (!dlopen("plugin.so", RTLD_NOW))
		printf("missing: plugin.so: %s\n", dlerror());

	void *library = dlopen("libibverbs.so.1", RTLD_NOW);
	void *again = dlopen("libibverbs.so", RTLD_NOW | RTLD_NOLOAD);
	if (!library || library != again) {
		printf("missing: libibverbs.so.1: %p, %p: %s\n", library, again, dlerror());
		return 1;
	}
	if (dlopen("libnone.so", RTLD_NOW))
		printf("found libnone.so\n");
	dlclose(again);
	char version[32], name[64];
	while (scanf("%31s %63s", version, name) == 2)
		if (!dlvsym(library, name, version) || !dlsym(library, name))
			printf("missing: %s@%s\n", name, version);

	struct ibv_device **(*get)(int *) = (struct ibv_device **(*)(int *))dlvsym(library, "ibv_get_device_list", "IBVERBS_1.1");
	const char *(*name_of)(struct ibv_device *) = (const char *(*)(struct ibv_device *))dlvsym(library, "ibv_get_device_name", "IBVERBS_1.1");
	struct ibv_context *(*open)(struct ibv_device *) = (struct ibv_context * (*)(struct ibv_device *)) dlvsym(library, "ibv_open_device", "IBVERBS_1.1");
	int (*close)(struct ibv_context *) = (int (*)(struct ibv_context *))dlvsym(library, "ibv_close_device", "IBVERBS_1.1");
	if (!get || !name_of || !open || !close)
		return 1;
	struct ibv_device **devices = get(NULL);
	for (int i = 0; devices && devices[i]; i++) {
		struct ibv_context *context = open(devices[i]);
		printf("%s %s\n", context ? "opened" : "did not open", name_of(devices[i]));
		if (context)
			close(context);
	}
	dlclose(library);
	return 0;
}
