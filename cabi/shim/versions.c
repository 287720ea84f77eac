/*
 * Functions that headers do not declare: those of libibverbs 1.0, which programs from before 2007
 * use, and those of later versions than the headers may have. Only the real library has their
 * objects. buffer.c has the later functions that the software device supports.
 */
#include "shim.h"

/*
 * The arguments are numbers and pointers, which all go into registers. So one type stands for the
 * type of each function.
 */
typedef long forwarded(long a, long b, long c, long d, long e);

/* FORWARD defines a function that calls the real one, or returns a value if the system has none. */
#define FORWARD(local, name, node, at, otherwise)                                     \
	forwarded local;                                                              \
	long local(long a, long b, long c, long d, long e)                            \
	{                                                                             \
		static forwarded *known;                                              \
		forwarded *real = __atomic_load_n(&known, __ATOMIC_ACQUIRE);          \
		if (!real && !(real = real_version(#name, node))) {                   \
			errno = EOPNOTSUPP;                                           \
			return otherwise;                                             \
		}                                                                     \
		__atomic_store_n(&known, real, __ATOMIC_RELEASE);                     \
		return real(a, b, c, d, e);                                           \
	}                                                                             \
	SYMVER(local, #name at node)

/* The objects of libibverbs 1.0 are others. Its device list has the real devices. */
#define OLD(name, otherwise) FORWARD(old_##name, name, "IBVERBS_1.0", "@", otherwise)
enum { NOTHING = 0, ERROR = EOPNOTSUPP, MINUS = -1 };

OLD(ibv_get_device_list, NOTHING);
OLD(ibv_free_device_list, NOTHING);
OLD(ibv_get_device_name, NOTHING);
OLD(ibv_get_device_guid, NOTHING);
OLD(ibv_open_device, NOTHING);
OLD(ibv_close_device, ERROR);
OLD(ibv_get_async_event, MINUS);
OLD(ibv_ack_async_event, NOTHING);
OLD(ibv_query_device, ERROR);
OLD(ibv_query_port, ERROR);
OLD(ibv_query_gid, MINUS);
OLD(ibv_query_pkey, MINUS);
OLD(ibv_alloc_pd, NOTHING);
OLD(ibv_dealloc_pd, ERROR);
OLD(ibv_reg_mr, NOTHING);
OLD(ibv_dereg_mr, ERROR);
OLD(ibv_create_cq, NOTHING);
OLD(ibv_resize_cq, ERROR);
OLD(ibv_destroy_cq, ERROR);
OLD(ibv_get_cq_event, MINUS);
OLD(ibv_ack_cq_events, NOTHING);
OLD(ibv_create_srq, NOTHING);
OLD(ibv_modify_srq, ERROR);
OLD(ibv_query_srq, ERROR);
OLD(ibv_destroy_srq, ERROR);
OLD(ibv_create_qp, NOTHING);
OLD(ibv_query_qp, ERROR);
OLD(ibv_modify_qp, ERROR);
OLD(ibv_destroy_qp, ERROR);
OLD(ibv_create_ah, NOTHING);
OLD(ibv_destroy_ah, ERROR);
OLD(ibv_attach_mcast, ERROR);
OLD(ibv_detach_mcast, ERROR);
/* Drivers from before 2017 register themselves with it. */
FORWARD(old_register_driver, ibv_register_driver, "IBVERBS_1.1", "@", NOTHING);

/*
 * Later functions that the software device does not have. Those that make an object, or take one
 * of today's, begin with a pointer to the context or to an object with one.
 */
#define LATER(name, node, otherwise) FORWARD(later_##name, name, node, "@@", otherwise)

/* ABSENT defines a function that fails on the software device. of is the context of first. */
#define ABSENT(name, node, first_type, of, otherwise)                                 \
	forwarded later_##name;                                                       \
	long later_##name(long a, long b, long c, long d, long e)                     \
	{                                                                             \
		first_type first = (first_type)a;                                     \
		forwarded *real = ours(of) ? NULL : real_version(#name, node);        \
		if (!real) {                                                          \
			errno = EOPNOTSUPP;                                           \
			return otherwise;                                             \
		}                                                                     \
		return real(a, b, c, d, e);                                           \
	}                                                                             \
	SYMVER(later_##name, #name "@@" node)

ABSENT(ibv_alloc_dmah, "IBVERBS_1.15", struct ibv_context *, first, NOTHING);
LATER(ibv_dealloc_dmah, "IBVERBS_1.15", ERROR);
ABSENT(ibv_dm_export_dmabuf_fd, "IBVERBS_1.16", struct ibv_dm *, first->context, MINUS);
ABSENT(_ibv_query_comp_cntr_caps, "IBVERBS_1.18", struct ibv_context *, first, ERROR);
ABSENT(ibv_create_comp_cntr, "IBVERBS_1.18", struct ibv_context *, first, NOTHING);
ABSENT(ibv_qp_attach_comp_cntr, "IBVERBS_1.18", struct ibv_qp *, first->context, ERROR);
LATER(ibv_destroy_comp_cntr, "IBVERBS_1.18", ERROR);
LATER(ibv_set_comp_cntr, "IBVERBS_1.18", ERROR);
LATER(ibv_set_err_comp_cntr, "IBVERBS_1.18", ERROR);
LATER(ibv_inc_comp_cntr, "IBVERBS_1.18", ERROR);
LATER(ibv_inc_err_comp_cntr, "IBVERBS_1.18", ERROR);
LATER(ibv_read_comp_cntr, "IBVERBS_1.18", ERROR);
LATER(ibv_read_err_comp_cntr, "IBVERBS_1.18", ERROR);

/*
 * ibv_devinfo and pyverbs import ibv_query_gid_type, which is private: its node is named after the
 * release of the drivers' interface. shim.map has the node of rdma-core 34 to 56.
 */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);
#define GID_TYPE(release)                                                                             \
	int old_gid_type_##release(struct ibv_context *context, uint8_t port, unsigned index, int *type); \
	int old_gid_type_##release(struct ibv_context *context, uint8_t port, unsigned index, int *type)  \
	{                                                                                             \
		return ibv_query_gid_type(context, port, index, type);                                \
	}                                                                                             \
	SYMVER(old_gid_type_##release, "ibv_query_gid_type@IBVERBS_PRIVATE_" #release)
GID_TYPE(25);
GID_TYPE(33);
GID_TYPE(57);
GID_TYPE(59);
GID_TYPE(64);
GID_TYPE(65);
