/*
 * Functions of later versions that the software device supports: buffers that the library
 * allocates, the registration with attributes, and the port's speed. Headers of today may declare
 * them or not, so they have other names here.
 */
#include "shim.h"

/* REAL_LATER returns the real function, or NULL and errno. */
#define REAL_LATER(name, node)                                        \
	({                                                            \
		void *real = real_version(name, node);                \
		if (!real)                                            \
			errno = EOPNOTSUPP;                           \
		real;                                                 \
	})

/* struct ibv_buf, which programs do not look into. */
struct buffer {
	char *start;
	size_t size;
	struct ibv_pd *pd;
	struct buffer *next;
};

/* The buffers of the software device: the others are the real library's. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;

/* The list stays: a child must know the parent's buffers from those of the real library. */
void buffers_forked(void) { pthread_mutex_init(&lock, NULL); /* another thread of the parent may hold it */ }

static bool lost_buffer(const struct buffer *buffer) { return lost(context_of(buffer->pd->context)); }

static struct buffer **find(const void *handle)
{
	struct buffer **at = &buffers;
	while (*at && *at != handle)
		at = &(*at)->next;
	return at;
}

static bool is_buffer(const void *handle)
{
	pthread_mutex_lock(&lock);
	bool found = *find(handle);
	pthread_mutex_unlock(&lock);
	return found;
}

void *later_alloc_buf(struct ibv_pd *pd, size_t size, struct buffer **handle);
void *later_alloc_buf(struct ibv_pd *pd, size_t size, struct buffer **handle)
{
	if (!ours(pd->context)) {
		void *(*real)(struct ibv_pd *, size_t, struct buffer **) = REAL_LATER("ibv_alloc_buf", "IBVERBS_1.17");
		return real ? real(pd, size, handle) : NULL;
	}
	enum { PAGE = 4096 };
	if (lost(context_of(pd->context)))
		return null(EIO);
	if (!size || size > SIZE_MAX - PAGE)
		return null(EINVAL);
	struct buffer *buffer = calloc(1, sizeof *buffer);
	if (!buffer || !(buffer->start = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE)))
		return undone(buffer, ENOMEM);
	buffer->size = size;
	buffer->pd = pd;
	pd_hold(pd);
	pthread_mutex_lock(&lock);
	buffer->next = buffers;
	buffers = buffer;
	pthread_mutex_unlock(&lock);
	*handle = buffer;
	return buffer->start;
}
SYMVER(later_alloc_buf, "ibv_alloc_buf@@IBVERBS_1.17");

void later_free_buf(struct buffer *buffer);
void later_free_buf(struct buffer *buffer)
{
	pthread_mutex_lock(&lock);
	struct buffer **at = find(buffer);
	bool found = *at, inherited = found && lost_buffer(buffer);
	if (found && !inherited)
		*at = buffer->next;
	pthread_mutex_unlock(&lock);
	if (!found) {
		void (*real)(struct buffer *) = REAL_LATER("ibv_free_buf", "IBVERBS_1.17");
		if (real)
			real(buffer);
		return;
	}
	if (inherited)
		return;
	pd_release(buffer->pd);
	free(buffer->start);
	free(buffer);
}
SYMVER(later_free_buf, "ibv_free_buf@@IBVERBS_1.17");

/* No DMA-BUF is behind the memory: errno is that of libibverbs. */
int later_export_buf(struct buffer *buffer);
int later_export_buf(struct buffer *buffer)
{
	int (*real)(struct buffer *) = NULL;
	if (is_buffer(buffer))
		errno = lost_buffer(buffer) ? EIO : ENODATA;
	else
		real = REAL_LATER("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	return real ? real(buffer) : -1;
}
SYMVER(later_export_buf, "ibv_export_buf_dmabuf_fd@@IBVERBS_1.18");

/* struct ibv_mr_init_attr. mask says which of the fields after it count. */
struct mr_attr {
	size_t length;
	int access;
	uint64_t mask;
	uint64_t iova;
	char *addr;
	int fd;
	uint64_t fd_offset;
	void *dma_handle;
	struct buffer *buffer;
};
enum { WITH_IOVA = 1, WITH_ADDR = 2, WITH_FD = 4, WITH_FD_OFFSET = 8, WITH_BUFFER = 32 };

struct ibv_mr *later_reg_mr_ex(struct ibv_pd *pd, struct mr_attr *attr);
struct ibv_mr *later_reg_mr_ex(struct ibv_pd *pd, struct mr_attr *attr)
{
	if (!ours(pd->context)) {
		struct ibv_mr *(*real)(struct ibv_pd *, struct mr_attr *) = REAL_LATER("ibv_reg_mr_ex", "IBVERBS_1.15");
		return real ? real(pd, attr) : NULL;
	}
	const uint64_t known = WITH_IOVA | WITH_ADDR | WITH_FD | WITH_FD_OFFSET | WITH_BUFFER;
	uint64_t mask = attr->mask;
	if (mask & ~known)
		return null(EOPNOTSUPP);
	if (mask & WITH_FD)
		return mask & (WITH_ADDR | WITH_BUFFER)
			       ? null(EINVAL)
			       : ibv_reg_dmabuf_mr(pd, mask & WITH_FD_OFFSET ? attr->fd_offset : 0, attr->length,
						   mask & WITH_IOVA ? attr->iova : 0, attr->fd, attr->access);
	if (!(mask & WITH_ADDR) || mask & WITH_FD_OFFSET)
		return null(EINVAL);
	if (mask & WITH_BUFFER) {
		if (!is_buffer(attr->buffer) || attr->buffer->pd->context != pd->context || attr->buffer->pd->handle != pd->handle)
			return null(EINVAL); /* a parent domain has the handle of its domain */
		size_t offset = attr->addr - attr->buffer->start;
		if (offset > attr->buffer->size || attr->length > attr->buffer->size - offset)
			return null(EINVAL);
	}
	return ibv_reg_mr_iova2(pd, attr->addr, attr->length, mask & WITH_IOVA ? attr->iova : (uintptr_t)attr->addr, attr->access);
}
SYMVER(later_reg_mr_ex, "ibv_reg_mr_ex@@IBVERBS_1.15");

struct ibv_mr *later_reg_buf_mr(struct ibv_pd *pd, struct buffer *buffer, void *addr, size_t length, int access);
struct ibv_mr *later_reg_buf_mr(struct ibv_pd *pd, struct buffer *buffer, void *addr, size_t length, int access)
{
	if (!ours(pd->context)) {
		struct ibv_mr *(*real)(struct ibv_pd *, struct buffer *, void *, size_t, int) =
			REAL_LATER("ibv_reg_buf_mr", "IBVERBS_1.17");
		return real ? real(pd, buffer, addr, length, access) : NULL;
	}
	return later_reg_mr_ex(pd, &(struct mr_attr){.length = length, .access = access, .mask = WITH_ADDR | WITH_BUFFER,
						     .addr = addr, .buffer = buffer});
}
SYMVER(later_reg_buf_mr, "ibv_reg_buf_mr@@IBVERBS_1.17");

/* speed is in 100 Mbit/s. */
int later_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
int later_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	if (!ours(context)) {
		int (*real)(struct ibv_context *, uint32_t, uint64_t *) = REAL_LATER("ibv_query_port_speed", "IBVERBS_1.16");
		return real ? real(context, port, speed) : EOPNOTSUPP;
	}
	struct ibv_port_attr attr;
	int error = port > UINT8_MAX ? failed(EINVAL) : ibv_query_port(context, port, (struct _compat_ibv_port_attr *)&attr);
	if (error)
		return error;
	static const uint16_t lanes[] = {1, 4, 8, 12, 2}, lane[] = {25, 50, 100, 100, 140, 250, 500, 1000}; /* by bit */
	unsigned width = __builtin_ctz(attr.active_width | 1 << 8), rate = __builtin_ctz(attr.active_speed | 1 << 8);
	if (width >= sizeof lanes / sizeof *lanes || rate >= sizeof lane / sizeof *lane)
		return failed(EINVAL);
	*speed = (uint64_t)lanes[width] * lane[rate];
	return 0;
}
SYMVER(later_query_port_speed, "ibv_query_port_speed@@IBVERBS_1.16");
