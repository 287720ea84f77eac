/*
 * Device memory. The device is software, so its memory is memory of the process. As on hardware,
 * it is small, zero-based, and copied in words.
 */
#include "shim.h"

enum { WORD = 4 };

struct dm {
	struct ibv_dm verbs;
	uint8_t *bytes;
	size_t length, taken; /* taken: what it takes of the device's memory */
	unsigned users; /* regions and imports */
	struct dm *original; /* of an import */
	struct dm *next;
	unsigned generation; /* of the process that made it */
};

/* The device memories of the process. Their handles are for ibv_import_dm. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct dm *dms;
static size_t taken;
static uint32_t last_handle;

/*
 * A child may allocate from its parent's context, because the memory is the child's own; pyverbs
 * does. The memory that the parent has allocated is lost there.
 */
static bool inherited(const struct dm *dm) { return dm->generation != core_generation; }

static bool outside(const struct dm *dm, uint64_t offset, size_t length)
{
	return offset > dm->length || length > dm->length - offset;
}

void dms_forked(void)
{
	dms = NULL;
	taken = 0;
	pthread_mutex_init(&lock, NULL); /* another thread of the parent may hold it */
}

static int to_dm(struct ibv_dm *v, uint64_t offset, const void *from, size_t length)
{
	struct dm *dm = (struct dm *)v;
	if (inherited(dm))
		return failed(EIO);
	if (offset % WORD || length % WORD || outside(dm, offset, length))
		return failed(EFAULT);
	memcpy(dm->bytes + offset, from, length);
	return 0;
}

static int from_dm(void *to, struct ibv_dm *v, uint64_t offset, size_t length)
{
	struct dm *dm = (struct dm *)v;
	if (inherited(dm))
		return failed(EIO);
	if (offset % WORD || length % WORD || outside(dm, offset, length))
		return failed(EFAULT);
	memcpy(to, dm->bytes + offset, length);
	return 0;
}

static struct dm *dm_new(struct ibv_context *context, size_t length)
{
	struct dm *dm = calloc(1, sizeof *dm);
	if (dm) {
		dm->verbs = (struct ibv_dm){.context = context, .memcpy_to_dm = to_dm, .memcpy_from_dm = from_dm};
		dm->length = length;
		dm->generation = core_generation;
	}
	return dm;
}

struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	if (attr->comp_mask || !attr->length || attr->log_align_req > 12)
		return null(EINVAL);
	if (attr->length > MAX_DM)
		return null(ENOMEM);
	struct dm *dm = dm_new(context, attr->length);
	if (!dm)
		return NULL;
	enum { PAGE = 4096 };
	size_t whole = (attr->length + PAGE - 1) / PAGE * PAGE;
	pthread_mutex_lock(&lock);
	bool fits = whole <= MAX_DM - taken;
	if (fits && (dm->bytes = aligned_alloc(PAGE, whole))) {
		memset(dm->bytes, 0, whole);
		taken += dm->taken = whole;
		dm->verbs.handle = ++last_handle;
		dm->next = dms;
		dms = dm;
	}
	pthread_mutex_unlock(&lock);
	if (!dm->bytes)
		return undone(dm, ENOMEM);
	return &dm->verbs;
}

static void forget(struct dm *dm)
{
	struct dm **at = &dms;
	while (*at != dm)
		at = &(*at)->next;
	*at = dm->next;
	taken -= dm->taken;
}

int free_dm(struct ibv_dm *v)
{
	struct dm *dm = (struct dm *)v;
	if (inherited(dm))
		return failed(EIO);
	if (dm->original) {
		ibv_unimport_dm(v);
		return 0;
	}
	pthread_mutex_lock(&lock); /* ibv_import_dm finds it or not */
	unsigned users = held(&dm->users);
	if (!users)
		forget(dm);
	pthread_mutex_unlock(&lock);
	if (users)
		return in_use("ibv_free_dm", "device memory", users);
	free(dm->bytes);
	free(dm);
	return 0;
}

struct ibv_mr *reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *v, uint64_t offset, size_t length, unsigned access)
{
	struct dm *dm = (struct dm *)v;
	if (inherited(dm))
		return null(EIO);
	if (!(access & IBV_ACCESS_ZERO_BASED) || outside(dm, offset, length))
		return null(EINVAL);
	static uint32_t nothing; /* for a region of no bytes, which the core does not have */
	struct ibv_mr *mr = length ? mr_new(pd, dm->bytes + offset, length, 0, access) : mr_new(pd, &nothing, 1, 0, access);
	if (!mr)
		return NULL;
	mr->addr = NULL; /* addresses count from 0 */
	mr->length = length;
	struct dm *owner = dm->original ? dm->original : dm;
	((struct rv_mr *)mr)->users = &owner->users;
	hold(&owner->users);
	return mr;
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	UNLESS_OURS(context, ibv_import_dm, context, handle);
	if (lost(context_of(context)))
		return null(EIO);
	struct dm *dm = dm_new(context, 0);
	if (!dm)
		return NULL;
	pthread_mutex_lock(&lock);
	struct dm *original = dms;
	while (original && original->verbs.handle != handle)
		original = original->next;
	if (original) {
		dm->verbs.handle = handle;
		dm->bytes = original->bytes;
		dm->length = original->length;
		dm->original = original;
		hold(&original->users);
	}
	pthread_mutex_unlock(&lock);
	if (!original)
		return undone(dm, ENOENT);
	return &dm->verbs;
}

void ibv_unimport_dm(struct ibv_dm *v)
{
	UNLESS_OURS(v->context, ibv_unimport_dm, v);
	struct dm *dm = (struct dm *)v;
	if (inherited(dm) || !dm->original)
		return; /* the parent's, or the program's mistake: ibv_free_dm frees it */
	release(&dm->original->users);
	free(dm);
}
