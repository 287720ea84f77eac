/*
 * Functions that the software device does not have: they answer EOPNOTSUPP.
 */
#include "shim.h"

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	UNLESS_OURS(qp->context, ibv_query_ece, qp, ece);
	memset(ece, 0, sizeof *ece);
	return failed(EOPNOTSUPP);
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return ours(qp->context) ? failed(EOPNOTSUPP) : REAL(ibv_set_ece)(qp, ece);
}
