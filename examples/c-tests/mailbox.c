/*
 * The mailbox: an RC queue pair. A message is an RDMA WRITE with its length as immediate data.
 */
#include "mailbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* find_gid takes the first RoCE v2 GID of an IPv4 address. */
static int find_gid(struct mailbox *m)
{
	const unsigned char ipv4[12] = {[10] = 0xff, [11] = 0xff};
	struct ibv_gid_entry entry;
	for (int i = 0; i < 256; i++)
		if (!ibv_query_gid_ex(m->context, 1, i, &entry, 0) && entry.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(entry.gid.raw, ipv4, sizeof ipv4)) {
			m->gid = entry.gid;
			m->gid_index = i;
			return 0;
		}
	return EADDRNOTAVAIL;
}

/* post_receive posts a receive without memory, for the immediate data. */
static int post_receive(struct mailbox *m)
{
	struct ibv_recv_wr wr = {.num_sge = 0}, *bad;
	return ibv_post_recv(m->qp, &wr, &bad);
}

int mailbox_open(struct mailbox *m)
{
	memset(m, 0, sizeof *m);
	struct ibv_device **devices = ibv_get_device_list(NULL);
	if (!devices)
		return errno;
	if (devices[0])
		m->context = ibv_open_device(devices[0]);
	else
		errno = ENODEV;
	ibv_free_device_list(devices);
	if (!m->context)
		return errno;
	int error = find_gid(m);
	if (error)
		return error;
	if (posix_memalign((void **)&m->memory, 4096, 2 * MAILBOX_SIZE))
		return ENOMEM;
	memset(m->memory, 0, 2 * MAILBOX_SIZE);
	if (!(m->pd = ibv_alloc_pd(m->context)) ||
	    !(m->mr = ibv_reg_mr(m->pd, m->memory, 2 * MAILBOX_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)) ||
	    !(m->cq = ibv_create_cq(m->context, 4, NULL, NULL, 0)))
		return errno;
	struct ibv_qp_init_attr init = {
		.send_cq = m->cq, .recv_cq = m->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	if (!(m->qp = ibv_create_qp(m->pd, &init)))
		return errno;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	error = ibv_modify_qp(m->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	return error ? error : post_receive(m);
}

struct mailbox_address mailbox_address(const struct mailbox *m)
{
	return (struct mailbox_address){.memory = (uintptr_t)m->memory, .rkey = m->mr->rkey, .qp_num = m->qp->qp_num, .gid = m->gid};
}

int mailbox_connect(struct mailbox *m, const struct mailbox_address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->qp_num, .max_dest_rd_atomic = 1,
		.min_rnr_timer = 12, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .sgid_index = m->gid_index, .hop_limit = 64}},
	};
	int error = ibv_modify_qp(m->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
							IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (error)
		return error;
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	m->peer_memory = peer->memory;
	m->peer_rkey = peer->rkey;
	return ibv_modify_qp(m->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
						   IBV_QP_MAX_QP_RD_ATOMIC);
}

/* complete polls until a completion is there. */
static struct ibv_wc complete(struct mailbox *m)
{
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(m->cq, 1, &wc)))
		;
	if (n < 0)
		wc = (struct ibv_wc){.status = IBV_WC_GENERAL_ERR};
	return wc;
}

enum ibv_wc_status mailbox_put(struct mailbox *m, const void *message, uint32_t length, uint32_t offset)
{
	if (length > MAILBOX_SIZE)
		return IBV_WC_LOC_LEN_ERR;
	char *from = m->memory + MAILBOX_SIZE;
	memcpy(from, message, length);
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = length, .lkey = m->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .send_flags = IBV_SEND_SIGNALED,
				 .imm_data = htonl(length), .wr.rdma = {.remote_addr = m->peer_memory + offset, .rkey = m->peer_rkey}}, *bad;
	if (ibv_post_send(m->qp, &wr, &bad))
		return IBV_WC_GENERAL_ERR;
	return complete(m).status;
}

int mailbox_get(struct mailbox *m)
{
	struct ibv_wc wc = complete(m);
	if (wc.status || wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || post_receive(m))
		return -1;
	return ntohl(wc.imm_data);
}

void mailbox_close(struct mailbox *m)
{
	if (m->qp)
		ibv_destroy_qp(m->qp);
	if (m->cq)
		ibv_destroy_cq(m->cq);
	if (m->mr)
		ibv_dereg_mr(m->mr);
	if (m->pd)
		ibv_dealloc_pd(m->pd);
	if (m->context)
		ibv_close_device(m->context);
	free(m->memory);
}
