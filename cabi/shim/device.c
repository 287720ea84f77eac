/*
 * Devices: the list, opening, attributes. tables.c has the tables of their ports.
 */
#include "shim.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The software device of this process: RAWVERBS_DEVICE, or soft0. */
static struct ibv_device soft;
static pthread_once_t soft_once = PTHREAD_ONCE_INIT;

/*
 * Sysfs cannot have a colon in a name, and programs paste names into paths: soft:eth0 is soft-eth0
 * in device lists.
 */
static const char *soft_name(void)
{
	const char *name = getenv("RAWVERBS_DEVICE");
	return name && *name ? name : "soft0";
}

static void soft_init(void)
{
	soft.node_type = IBV_NODE_CA;
	soft.transport_type = IBV_TRANSPORT_IB;
	snprintf(soft.name, sizeof soft.name, "%s", soft_name());
	for (char *c = soft.name; *c; c++)
		if (*c == ':' || *c == '/' || *c == '%')
			*c = '-';
	strcpy(soft.dev_name, "uverbs4791"); /* the kernel's numbers are less than 1024 */
	snprintf(soft.dev_path, sizeof soft.dev_path, "/sys/class/infiniband_verbs/%s", soft.dev_name);
	snprintf(soft.ibdev_path, sizeof soft.ibdev_path, "/sys/class/infiniband/%s", soft.name);
}

struct ibv_device *soft_device(void)
{
	pthread_once(&soft_once, soft_init);
	return &soft;
}

/* guid hashes the host's and the device's names, so that it stays the same (FNV-1a). The file
 * node_guid has the same number. */
static uint64_t guid(void)
{
	char host[256] = "";
	gethostname(host, sizeof host - 1);
	uint64_t hash = 0xcbf29ce484222325;
	for (const char *part[] = {host, soft_name(), NULL}, **p = part; *p; p++)
		for (const char *c = *p; *c; c++)
			hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
	return hash;
}

/* A device list: the program gets a pointer to devices. */
struct list {
	struct ibv_device **real;
	struct ibv_device *devices[];
};

/* real_list lists the system's devices. That fails on a machine without RDMA. */
static struct ibv_device **real_list(int *count)
{
	LEAVE_ERRNO;
	struct ibv_device **(*list_real)(int *) = real_symbol("ibv_get_device_list", false);
	files_untrapped++; /* the real library has no driver for the software device */
	struct ibv_device **real = list_real ? list_real(count) : NULL;
	files_untrapped--;
	return real;
}

struct ibv_device **ibv_get_device_list(int *count)
{
	int n = 0;
	struct ibv_device **real = real_list(&n);
	if (!real)
		n = 0;
	struct list *list = calloc(1, sizeof *list + (n + 2) * sizeof *list->devices);
	if (!list) {
		if (real)
			REAL(ibv_free_device_list)(real);
		return NULL;
	}
	list->real = real;
	list->devices[0] = soft_device();
	for (int i = 0; i < n; i++)
		list->devices[i + 1] = real[i];
	if (count)
		*count = n + 1;
	return list->devices;
}

void ibv_free_device_list(struct ibv_device **devices)
{
	struct list *list = (struct list *)((char *)devices - offsetof(struct list, devices));
	if (list->real)
		REAL(ibv_free_device_list)(list->real);
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device) { return device->name; }

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device == &soft ? htobe64(guid()) : REAL(ibv_get_device_guid)(device);
}

int ibv_get_device_index(struct ibv_device *device)
{
	return device == &soft ? -1 : REAL(ibv_get_device_index)(device);
}

/* Memory is never copied on fork behind the device's back: the device is this process. */
int ibv_fork_init(void)
{
	int (*f)(void) = real_symbol("ibv_fork_init", false);
	return f ? f() : 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	enum ibv_fork_status (*f)(void) = real_symbol("ibv_is_fork_initialized", false);
	return f ? f() : IBV_FORK_UNNEEDED;
}

bool ours(const struct ibv_context *c) { return c->ops.poll_cq == poll_cq; }

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr all;
	struct context *c = context_of(context);
	int error = CALL(c, rv_query_port, c->handle, port, &all);
	if (!error)
		memcpy(attr, &all, size < sizeof all ? size : sizeof all);
	return error;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	struct context *c = context_of(context);
	if (input && input->comp_mask)
		return failed(EINVAL);
	memcpy(attr, &c->attr, size < sizeof c->attr ? size : sizeof c->attr);
	return 0;
}

/* The raw clock is that of the completion timestamps. */
static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct context *c = context_of(context);
	if (lost(c))
		return failed(EIO);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		LEAVE_ERRNO;
		uint64_t now = core_of(c)->rv_clock(c->handle);
		values->raw_clock = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
	}
	values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

/* The open contexts of the software device. Whoever holds the lock may use them: nobody closes them meanwhile. */
static struct context *opened;
static pthread_mutex_t opened_lock = PTHREAD_MUTEX_INITIALIZER;

/* add_opened adds a context, which may be NULL. The caller holds the lock. */
static struct ibv_context *add_opened(struct context *c)
{
	if (!c)
		return NULL;
	c->next = opened;
	opened = c;
	return &c->verbs.context;
}

static void remove_opened(struct context *c)
{
	pthread_mutex_lock(&opened_lock);
	struct context **p = &opened;
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	pthread_mutex_unlock(&opened_lock);
}

void devices_forked(void)
{
	opened = NULL;
	pthread_mutex_init(&opened_lock, NULL); /* another thread of the parent may hold it */
}

/* opened_with returns the open context that a descriptor is a duplicate of. The caller holds the lock. */
static struct context *opened_with(int cmd_fd)
{
	LEAVE_ERRNO;
	struct stat wanted, its;
	if (fstat(cmd_fd, &wanted))
		return NULL;
	struct context *c = opened;
	while (c && (fstat(c->verbs.context.cmd_fd, &its) || its.st_dev != wanted.st_dev || its.st_ino != wanted.st_ino))
		c = c->next;
	return c;
}

static struct async *async_new(void)
{
	struct async *a = calloc(1, sizeof *a);
	if (a) {
		pthread_mutex_init(&a->lock, NULL);
		a->contexts = 1;
	}
	return a;
}

static struct async *async_share(struct async *a)
{
	__atomic_add_fetch(&a->contexts, 1, __ATOMIC_RELAXED);
	return a;
}

static void async_free(struct async *a)
{
	if (!a || __atomic_sub_fetch(&a->contexts, 1, __ATOMIC_ACQ_REL))
		return;
	pthread_mutex_destroy(&a->lock);
	free(a);
}

/* files opens the descriptors of a context. With an original, it shares those of the original. */
static bool files(struct context *c, const struct context *original, int cmd_fd)
{
	int pipe[2] = {-1, -1};
	c->async = original ? async_share(original->async) : async_new();
	if (original) {
		pipe[0] = fcntl(original->verbs.context.async_fd, F_DUPFD_CLOEXEC, 0);
		pipe[1] = fcntl(original->async_fd, F_DUPFD_CLOEXEC, 0);
	} else {
		cmd_fd = memfd_create("rawverbs", MFD_CLOEXEC); /* a file of its own, which opened_with knows again */
		if (pipe_new(pipe))
			pipe[0] = pipe[1] = -1;
	}
	c->verbs.context.cmd_fd = cmd_fd;
	c->verbs.context.async_fd = pipe[0];
	c->async_fd = pipe[1];
	return c->async && cmd_fd >= 0 && pipe[0] >= 0 && pipe[1] >= 0;
}

static void close_files(struct context *c)
{
	LEAVE_ERRNO;
	close(c->verbs.context.cmd_fd);
	close(c->verbs.context.async_fd);
	close(c->async_fd);
	async_free(c->async);
}

/* open_soft opens the device. With an original, it opens it for the objects of that context. */
static struct context *open_soft(const struct context *original, int cmd_fd)
{
	int before = errno;
	struct core *core = core_load();
	if (!core)
		return NULL;
	struct context *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->core = core;
	c->generation = core_generation;
	int error = 0;
	if (!files(c, original, cmd_fd))
		error = errno;
	else if (original)
		error = core->rv_import(original->handle, &c->device, &c->handle);
	else
		error = core->rv_open((char *)soft_name(), guid(), c->async_fd, &c->device, &c->handle);
	if (!error && (error = core->rv_query_device(c->handle, &c->attr)))
		core->rv_close(c->handle);
	c->attr.max_dm_size = MAX_DM;
	if (error) {
		if (original)
			c->verbs.context.cmd_fd = -1; /* it stays the caller's */
		close_files(c);
		free(c);
		return null(error);
	}
	struct verbs_context *v = &c->verbs;
	v->sz = sizeof *v;
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->query_rt_values = query_rt_values;
	v->create_cq_ex = create_cq_ex;
	v->modify_cq = modify_cq;
	v->create_qp_ex = create_qp_ex;
	v->create_srq_ex = create_srq_ex;
	v->get_srq_num = get_srq_num;
	v->advise_mr = advise_mr;
	v->alloc_null_mr = alloc_null_mr;
	v->alloc_dm = alloc_dm;
	v->free_dm = free_dm;
	v->reg_dm_mr = reg_dm_mr;
	v->alloc_td = alloc_td;
	v->dealloc_td = dealloc_td;
	v->alloc_parent_domain = alloc_parent_domain;
	struct ibv_context *context = &v->context;
	context->device = &soft;
	context->num_comp_vectors = 1;
	context->abi_compat = (void *)-1; /* says that there is a verbs_context */
	pthread_mutex_init(&context->mutex, NULL);
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = arm_cq;
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.alloc_mw = alloc_mw;
	context->ops.bind_mw = bind_mw;
	context->ops.dealloc_mw = dealloc_mw;
	errno = before;
	return c;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (device != &soft)
		return REAL(ibv_open_device)(device);
	struct context *c = open_soft(NULL, -1);
	pthread_mutex_lock(&opened_lock);
	struct ibv_context *context = add_opened(c);
	pthread_mutex_unlock(&opened_lock);
	return context;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	pthread_mutex_lock(&opened_lock);
	struct context *original = opened_with(cmd_fd);
	struct ibv_context *context = original ? add_opened(open_soft(original, cmd_fd)) : NULL;
	pthread_mutex_unlock(&opened_lock);
	if (original)
		return context;
	struct ibv_context *(*real)(int) = real_symbol("ibv_import_device", false);
	return real ? real(cmd_fd) : null(EINVAL);
}

int ibv_close_device(struct ibv_context *context)
{
	UNLESS_OURS(context, ibv_close_device, context);
	struct context *c = context_of(context);
	if (lost(c))
		return failed(EIO);
	remove_opened(c);
	int error = CALL(c, rv_close, c->handle);
	close_files(c);
	free(c);
	return error;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	UNLESS_OURS(context, ibv_query_device, context, attr);
	*attr = context_of(context)->attr.orig_attr;
	return 0;
}

/* Programs built with old headers call it; new headers have an inline function. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	UNLESS_OURS(context, ibv_query_port, context, port, attr);
	return query_port(context, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

int soft_gid(unsigned index, struct ibv_gid_entry *entry)
{
	LEAVE_ERRNO;
	pthread_mutex_lock(&opened_lock);
	int error = opened ? find_gid(opened, 1, index, entry) : ENODEV;
	pthread_mutex_unlock(&opened_lock);
	return error;
}
