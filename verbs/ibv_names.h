/*
 * The functions of libibverbs that the C wall, or an inline function of verbs.h, calls:
 * ibv_load.c defines each of them. Include this in place of verbs.h.
 *
 * Under libibverbs' names these definitions would serve every package of the program,
 * those linked with -libverbs too: the linker knows one function of a name. So each
 * gets a symbol of its own before verbs.h declares it. A function that is called and
 * not listed here fails to link.
 */
#ifndef RAWVERBS_IBV_NAMES_H
#define RAWVERBS_IBV_NAMES_H

/* F(ret, fail, name, parameters, arguments); fail is returned, with errno
 * EOPNOTSUPP, by a function that this machine's library is too old to have.
 * V(name, parameters, arguments) returns nothing. */
#define RV_FUNCTIONS(F, V)                                                     \
	F(ssize_t, -EOPNOTSUPP, _ibv_query_gid_table,                              \
	  (struct ibv_context *c, struct ibv_gid_entry *e, size_t n, uint32_t f, size_t s), (c, e, n, f, s)) \
	V(ibv_ack_async_event, (struct ibv_async_event *e), (e))                   \
	V(ibv_ack_cq_events, (struct ibv_cq *cq, unsigned int n), (cq, n))         \
	F(struct ibv_pd *, NULL, ibv_alloc_pd, (struct ibv_context *c), (c))       \
	F(int, EOPNOTSUPP, ibv_attach_mcast,                                       \
	  (struct ibv_qp *qp, const union ibv_gid *g, uint16_t l), (qp, g, l))     \
	F(int, EOPNOTSUPP, ibv_close_device, (struct ibv_context *c), (c))         \
	F(struct ibv_ah *, NULL, ibv_create_ah, (struct ibv_pd *pd, struct ibv_ah_attr *a), (pd, a)) \
	F(struct ibv_comp_channel *, NULL, ibv_create_comp_channel, (struct ibv_context *c), (c)) \
	F(struct ibv_cq *, NULL, ibv_create_cq,                                    \
	  (struct ibv_context *c, int cqe, void *x, struct ibv_comp_channel *ch, int v), (c, cqe, x, ch, v)) \
	F(struct ibv_qp *, NULL, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *a), (pd, a)) \
	F(struct ibv_srq *, NULL, ibv_create_srq, (struct ibv_pd *pd, struct ibv_srq_init_attr *a), (pd, a)) \
	F(int, EOPNOTSUPP, ibv_dealloc_pd, (struct ibv_pd *pd), (pd))              \
	F(int, EOPNOTSUPP, ibv_dereg_mr, (struct ibv_mr *mr), (mr))                \
	F(int, EOPNOTSUPP, ibv_destroy_ah, (struct ibv_ah *ah), (ah))              \
	F(int, EOPNOTSUPP, ibv_destroy_comp_channel, (struct ibv_comp_channel *ch), (ch)) \
	F(int, EOPNOTSUPP, ibv_destroy_cq, (struct ibv_cq *cq), (cq))              \
	F(int, EOPNOTSUPP, ibv_destroy_qp, (struct ibv_qp *qp), (qp))              \
	F(int, EOPNOTSUPP, ibv_destroy_srq, (struct ibv_srq *srq), (srq))          \
	F(int, EOPNOTSUPP, ibv_detach_mcast,                                       \
	  (struct ibv_qp *qp, const union ibv_gid *g, uint16_t l), (qp, g, l))     \
	V(ibv_free_device_list, (struct ibv_device **l), (l))                      \
	F(int, -1, ibv_get_async_event, (struct ibv_context *c, struct ibv_async_event *e), (c, e)) \
	F(int, -1, ibv_get_cq_event, (struct ibv_comp_channel *ch, struct ibv_cq **cq, void **x), (ch, cq, x)) \
	F(__be64, 0, ibv_get_device_guid, (struct ibv_device *d), (d))             \
	F(int, -1, ibv_get_device_index, (struct ibv_device *d), (d))              \
	F(struct ibv_device **, NULL, ibv_get_device_list, (int *n), (n))          \
	F(const char *, NULL, ibv_get_device_name, (struct ibv_device *d), (d))    \
	F(int, EOPNOTSUPP, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *a, int m), (qp, a, m)) \
	F(int, EOPNOTSUPP, ibv_modify_srq, (struct ibv_srq *srq, struct ibv_srq_attr *a, int m), (srq, a, m)) \
	F(struct ibv_context *, NULL, ibv_open_device, (struct ibv_device *d), (d)) \
	F(struct ibv_qp_ex *, NULL, ibv_qp_to_qp_ex, (struct ibv_qp *qp), (qp))    \
	F(int, EOPNOTSUPP, ibv_query_device, (struct ibv_context *c, struct ibv_device_attr *a), (c, a)) \
	F(int, EOPNOTSUPP, ibv_query_ece, (struct ibv_qp *qp, struct ibv_ece *e), (qp, e)) \
	F(int, -1, ibv_query_pkey, (struct ibv_context *c, uint8_t p, int i, __be16 *k), (c, p, i, k)) \
	F(int, EOPNOTSUPP, ibv_query_port, (struct ibv_context *c, uint8_t p, struct _compat_ibv_port_attr *a), (c, p, a)) \
	F(int, EOPNOTSUPP, ibv_query_qp,                                           \
	  (struct ibv_qp *qp, struct ibv_qp_attr *a, int m, struct ibv_qp_init_attr *i), (qp, a, m, i)) \
	F(int, -1, ibv_query_qp_data_in_order, (struct ibv_qp *qp, enum ibv_wr_opcode o, uint32_t f), (qp, o, f)) \
	F(int, EOPNOTSUPP, ibv_query_srq, (struct ibv_srq *srq, struct ibv_srq_attr *a), (srq, a)) \
	F(struct ibv_mr *, NULL, ibv_reg_dmabuf_mr,                                \
	  (struct ibv_pd *pd, uint64_t o, size_t n, uint64_t i, int fd, int a), (pd, o, n, i, fd, a)) \
	F(struct ibv_mr *, NULL, ibv_reg_mr, (struct ibv_pd *pd, void *p, size_t n, int a), (pd, p, n, a)) \
	F(struct ibv_mr *, NULL, ibv_reg_mr_iova,                                  \
	  (struct ibv_pd *pd, void *p, size_t n, uint64_t i, int a), (pd, p, n, i, a)) \
	F(struct ibv_mr *, NULL, ibv_reg_mr_iova2,                                 \
	  (struct ibv_pd *pd, void *p, size_t n, uint64_t i, unsigned int a), (pd, p, n, i, a)) \
	F(int, IBV_REREG_MR_ERR_INPUT, ibv_rereg_mr,                               \
	  (struct ibv_mr *mr, int f, struct ibv_pd *pd, void *p, size_t n, int a), (mr, f, pd, p, n, a)) \
	F(int, EOPNOTSUPP, ibv_resize_cq, (struct ibv_cq *cq, int cqe), (cq, cqe)) \
	F(int, EOPNOTSUPP, ibv_set_ece, (struct ibv_qp *qp, struct ibv_ece *e), (qp, e))

#define RV_PRAGMA(text) _Pragma(#text)
#define RV_RENAME_F(ret, fail, name, params, args) RV_PRAGMA(redefine_extname name rv_##name)
#define RV_RENAME_V(name, params, args) RV_PRAGMA(redefine_extname name rv_##name)
RV_FUNCTIONS(RV_RENAME_F, RV_RENAME_V)

#include <infiniband/verbs.h>

#endif
