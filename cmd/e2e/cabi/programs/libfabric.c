/*
 * Datagrams over libfabric's verbs provider: libfabric DOMAIN COUNT. Two endpoints send each other
 * COUNT messages, and compare every byte. It has no event queue, because those of the provider need
 * librdmacm.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                               \
	do {                                                                                      \
		long status = (call);                                                             \
		if (status < 0) {                                                                 \
			fprintf(stderr, "%s: %s\n", #call, fi_strerror((int)-status));            \
			exit(1);                                                                  \
		}                                                                                 \
	} while (0)

enum { SIZE = 1024 };

static struct fi_info *info;
static struct fid_domain *domain;

struct end {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_mr *mr;
	fi_addr_t peer;
	char name[256];
	size_t name_size;
	char *memory; /* first half: to send, second half: to receive */
};

/* Half of an end's memory: a message with its prefix, which this provider sends too, and a header. */
static size_t half(void) { return SIZE + 2 * info->ep_attr->msg_prefix_size; }

static void open_end(struct end *e)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_MSG, .size = 16};
	struct fi_av_attr av = {.type = FI_AV_MAP};
	CHECK(fi_endpoint(domain, info, &e->ep, NULL));
	CHECK(fi_cq_open(domain, &cq, &e->cq, NULL));
	CHECK(fi_av_open(domain, &av, &e->av, NULL));
	CHECK(fi_ep_bind(e->ep, &e->cq->fid, FI_TRANSMIT | FI_RECV));
	CHECK(fi_ep_bind(e->ep, &e->av->fid, 0));
	CHECK(fi_enable(e->ep));
	e->name_size = sizeof e->name;
	CHECK(fi_getname(&e->ep->fid, e->name, &e->name_size));
	e->memory = calloc(2, half());
	CHECK(fi_mr_reg(domain, e->memory, 2 * half(), FI_SEND | FI_RECV, 0, 0, 0, &e->mr, NULL));
}

/* await returns the length of the completed message. */
static size_t await(struct fid_cq *cq)
{
	struct fi_cq_msg_entry entry;
	ssize_t n;
	while ((n = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	CHECK(n);
	return entry.len;
}

/* transfer sends a message from a to b. */
static void transfer(struct end *a, struct end *b, int seed)
{
	size_t prefix = info->ep_attr->msg_prefix_size;
	char *sent = a->memory + prefix, *received = b->memory + half();
	for (int i = 0; i < SIZE; i++)
		sent[i] = (char)(seed * 7 + i);
	memset(received, 0, half());
	CHECK(fi_recv(b->ep, received, half(), fi_mr_desc(b->mr), FI_ADDR_UNSPEC, NULL));
	CHECK(fi_send(a->ep, a->memory, SIZE + prefix, fi_mr_desc(a->mr), a->peer, NULL));
	await(a->cq);
	size_t length = await(b->cq);
	if (length < SIZE || length > half() || memcmp(sent, received + length - SIZE, SIZE)) {
		fprintf(stderr, "message %d arrived with %zu bytes, or with other bytes\n", seed, length);
		exit(1);
	}
}

static void close_end(struct end *e)
{
	CHECK(fi_close(&e->ep->fid));
	CHECK(fi_close(&e->mr->fid));
	CHECK(fi_close(&e->av->fid));
	CHECK(fi_close(&e->cq->fid));
	free(e->memory);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0;
	struct fi_info *hints = fi_allocinfo();
	struct fid_fabric *fabric;
	struct end a = {0}, b = {0};
	hints->fabric_attr->prov_name = strdup("verbs");
	hints->domain_attr->name = strdup(argc > 1 ? argv[1] : "soft0-dgram");
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY;
	hints->ep_attr->type = FI_EP_DGRAM;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT | FI_MSG_PREFIX;
	CHECK(fi_getinfo(FI_VERSION(1, 9), NULL, NULL, 0, hints, &info));
	CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
	CHECK(fi_domain(fabric, info, &domain, NULL));
	open_end(&a);
	open_end(&b);
	CHECK(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL) - 1);
	CHECK(fi_av_insert(b.av, a.name, 1, &b.peer, 0, NULL) - 1);
	for (int i = 0; i < count; i++) {
		transfer(&a, &b, 2 * i);
		transfer(&b, &a, 2 * i + 1);
	}
	close_end(&a);
	close_end(&b);
	CHECK(fi_close(&domain->fid));
	CHECK(fi_close(&fabric->fid));
	printf("%d messages over %s, domain %s\n", 2 * count, info->fabric_attr->prov_name, info->domain_attr->name);
	return 0;
}
