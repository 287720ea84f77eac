/*
 * What Go asks libibverbs about devices and queue pairs beyond the common questions,
 * and what few devices have. See ibv_shim.h for how these functions answer.
 */

#ifndef RAWVERBS_IBV_QUERY_H
#define RAWVERBS_IBV_QUERY_H

#include <time.h>
#include "ibv_shim.h"

static inline int rv_query_device_ex(struct ibv_context *ctx, struct ibv_device_attr_ex *attr)
{
	memset(attr, 0, sizeof(*attr));
	return rv_errno(ibv_query_device_ex(ctx, NULL, attr));
}

/* rv_query_raw_clock: providers put the ticks into tv_nsec, and those that count
 * past a second's nanoseconds do so there too. */
static inline int rv_query_raw_clock(struct ibv_context *ctx, uint64_t *ticks)
{
	struct ibv_values_ex values;
	int ret;

	memset(&values, 0, sizeof(values));
	values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	ret = rv_errno(ibv_query_rt_values_ex(ctx, &values));
	if (!ret && !(values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK))
		ret = EOPNOTSUPP;
	*ticks = (uint64_t)values.raw_clock.tv_sec * 1000000000 + (uint64_t)values.raw_clock.tv_nsec;
	return ret;
}

RV_ERRNO(query_ece, (struct ibv_qp *qp, struct ibv_ece *ece), (qp, ece))

static inline int rv_set_ece(struct ibv_qp *qp, uint32_t vendor, uint32_t options)
{
	struct ibv_ece ece = { .vendor_id = vendor, .options = options };

	return rv_errno(ibv_set_ece(qp, &ece));
}

/* Younger than the verbs.h of systems that are still in use. */
int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);

static inline int rv_query_qp_data_in_order(struct ibv_qp *qp, int op, int *in_order)
{
	*in_order = ibv_query_qp_data_in_order(qp, op, 0);
	return *in_order < 0 ? errno : 0;
}

#endif
