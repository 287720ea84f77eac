/*
 * Makes the mistake that its argument names, and prints the errno. rawverbs run --explain has to
 * print the cause and the remedy.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(const void *object, const char *what)
{
	if (!object) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	struct ibv_device **devices = ibv_get_device_list(NULL);
	need(devices, "ibv_get_device_list");
	struct ibv_context *context = ibv_open_device(devices[0]);
	need(context, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	need(pd, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
	need(cq, "ibv_create_cq");
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	need(qp, "ibv_create_qp");

	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	const int init_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	char buffer[64];
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = sizeof buffer, .lkey = 0};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	int error;
	if (!strcmp(argv[1], "mask")) {
		error = ibv_modify_qp(qp, &attr, init_mask & ~IBV_QP_PORT);
	} else if (!strcmp(argv[1], "state")) {
		attr.qp_state = IBV_QPS_RTS;
		error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	} else if (!strcmp(argv[1], "early-send")) {
		error = ibv_post_send(qp, &wr, &bad);
	} else if (!strcmp(argv[1], "busy")) {
		error = ibv_dealloc_pd(pd);
	} else if (!strcmp(argv[1], "access")) {
		error = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_REMOTE_WRITE) ? 0 : errno;
	} else {
		return 2;
	}
	printf("%s: %s\n", argv[1], strerror(error));
	return fflush(stdout) ? 1 : 0; /* the leak sanitizer ends the process without a flush */
}
