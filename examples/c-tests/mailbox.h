/*
 * A mailbox over RDMA: a message that one end puts appears in the memory of the other end.
 *
 * Functions return 0 or an errno unless their comment says otherwise.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <infiniband/verbs.h>

#define MAILBOX_SIZE 4096 /* bytes of the longest message */

struct mailbox {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	char *memory; /* what the peer has put, then MAILBOX_SIZE bytes that are put */
	union ibv_gid gid;
	int gid_index;
	uint64_t peer_memory;
	uint32_t peer_rkey;
};

/* What the peer must know. The ends exchange it as they like, byte by byte. */
struct mailbox_address {
	uint64_t memory;
	uint32_t rkey;
	uint32_t qp_num;
	union ibv_gid gid;
};

/* Opens a mailbox on the first RDMA device. Call mailbox_close even after an error. */
int mailbox_open(struct mailbox *m);
struct mailbox_address mailbox_address(const struct mailbox *m);
int mailbox_connect(struct mailbox *m, const struct mailbox_address *peer);

/* Puts a message at an offset of the peer's memory, and waits until it is there. Returns the status of the completion. */
enum ibv_wc_status mailbox_put(struct mailbox *m, const void *message, uint32_t length, uint32_t offset);

/* Waits for a message. Returns its length, or -1. The message is in m->memory. */
int mailbox_get(struct mailbox *m);

void mailbox_close(struct mailbox *m);

#endif
