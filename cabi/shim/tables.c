/*
 * The tables of a port: GIDs and P_Keys.
 */
#include "shim.h"

#include <endian.h>

/* gid_table returns a port's table, which the caller frees, and the number of its entries, or -errno. */
static struct ibv_gid_entry *gid_table(struct context *c, uint32_t port, int *entries)
{
	LEAVE_ERRNO;
	struct ibv_port_attr attr;
	struct ibv_gid_entry *table = NULL;
	int error = CALL(c, rv_query_port, c->handle, port, &attr);
	if (!error && !(table = calloc(attr.gid_tbl_len + 1, sizeof *table)))
		error = ENOMEM;
	*entries = error ? -error : core_of(c)->rv_query_gid_table(c->handle, table, attr.gid_tbl_len + 1);
	return table;
}

int find_gid(struct context *c, uint32_t port, uint32_t index, struct ibv_gid_entry *entry)
{
	struct ibv_port_attr attr;
	int error = CALL(c, rv_query_port, c->handle, port, &attr), n;
	if (error)
		return error;
	if (index >= (uint32_t)attr.gid_tbl_len)
		return EINVAL;
	struct ibv_gid_entry *table = gid_table(c, port, &n);
	error = n < 0 ? -n : ENODATA;
	for (int i = 0; i < n; i++)
		if (table[i].port_num == port && table[i].gid_index == index) {
			*entry = table[i];
			error = 0;
			break;
		}
	free(table);
	return error;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	UNLESS_OURS(context, ibv_query_gid, context, port, index, gid);
	struct ibv_gid_entry entry = {0};
	int error = find_gid(context_of(context), port, index, &entry);
	if (error && error != ENODATA) {
		errno = error;
		return -1;
	}
	*gid = entry.gid; /* of an empty slot: zero */
	return 0;
}

/* ibv_devinfo and pyverbs use it, though it is private. The types are those of sysfs. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
	enum { SYSFS_ROCE_V2 = 1 };
	UNLESS_OURS(context, ibv_query_gid_type, context, port, index, type);
	*type = SYSFS_ROCE_V2;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *out,
		      uint32_t flags, size_t size)
{
	UNLESS_OURS(context, _ibv_query_gid_ex, context, port, index, out, flags, size);
	struct ibv_gid_entry entry;
	if (flags)
		return failed(EINVAL);
	int error = find_gid(context_of(context), port, index, &entry);
	if (error)
		return failed(error);
	memcpy(out, &entry, size < sizeof entry ? size : sizeof entry);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *out, size_t max, uint32_t flags, size_t size)
{
	UNLESS_OURS(context, _ibv_query_gid_table, context, out, max, flags, size);
	struct context *c = context_of(context);
	int n;
	if (flags)
		return -failed(EINVAL);
	struct ibv_gid_entry *table = gid_table(c, 1, &n);
	if (n > 0 && (size_t)n > max)
		n = -EINVAL;
	for (int i = 0; i < n; i++)
		memcpy((char *)out + i * size, &table[i], size < sizeof table[i] ? size : sizeof table[i]);
	free(table);
	return n < 0 ? -failed(-n) : n;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	UNLESS_OURS(context, ibv_query_pkey, context, port, index, pkey);
	struct context *c = context_of(context);
	uint16_t key;
	int error = CALL(c, rv_query_pkey, c->handle, port, index, &key);
	if (error) {
		errno = error;
		return -1;
	}
	*pkey = htobe16(key);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	UNLESS_OURS(context, ibv_get_pkey_index, context, port, pkey);
	__be16 key;
	for (int i = 0; !ibv_query_pkey(context, port, i, &key); i++)
		if (key == pkey)
			return i;
	return -1;
}
