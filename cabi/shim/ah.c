/*
 * Address handles.
 */
#include "shim.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	UNLESS_OURS(pd->context, ibv_create_ah, pd, attr);
	struct rv_ah *ah = calloc(1, sizeof *ah);
	if (!ah)
		return NULL;
	int error = CALL_OF(pd, pd, EINVAL, rv_create_ah, attr, &ah->handle);
	if (error)
		return undone(ah, error);
	ah->context = context_of(pd->context);
	ah->verbs = (struct ibv_ah){.context = pd->context, .pd = pd, .handle = ah->handle};
	pd_hold(pd);
	return &ah->verbs;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	UNLESS_OURS(ah->context, ibv_destroy_ah, ah);
	int error = CALL_OF(rv_ah, ah, ENOENT, rv_destroy_ah);
	if (error)
		return error;
	pd_release(ah->pd);
	free(ah);
	return 0;
}

/* Returns 0, or -1 and errno. */
int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	UNLESS_OURS(context, ibv_init_ah_from_wc, context, port, wc, grh, attr);
	struct context *c = context_of(context);
	memset(attr, 0, sizeof *attr);
	return CALL(c, rv_init_ah_from_wc, c->handle, port, wc, grh, attr) ? -1 : 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	UNLESS_OURS(pd->context, ibv_create_ah_from_wc, pd, wc, grh, port);
	struct ibv_ah_attr attr;
	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

/*
 * Drivers ask for the destination's link address. The software device sends through the system's
 * UDP socket, which resolves it.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr, uint8_t mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	return ours(context) ? failed(EOPNOTSUPP) : REAL(ibv_resolve_eth_l2_from_gid)(context, attr, mac, vid);
}
