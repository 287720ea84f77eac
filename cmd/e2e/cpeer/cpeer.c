// The other end of --peer rc-example and --peer rocev2-learn, for tests: what those
// C programs say over TCP and do with their queue pair, written from the formats'
// bytes (codec.go in cmd/internal/peer/rcexample and rocev2learn) with nothing of rawverbs in it.
//
//	cpeer rc-example|rocev2-learn DEVICE GID_INDEX PORT [SERVER_IP]
//
// SIZE in the environment is the message's size (16, or 4096), MTU the path MTU in
// bytes, NO_GID says that it was started without -g, DIE the step at which it exits.
// QPS makes it a later copy of rocev2-learn, with so many queue pairs on one CQ.
// What it receives is printed, a line each.

#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char *step = "start";

static void fail(const char *what) {
	fprintf(stderr, "cpeer: %s: %s failed\n", step, what);
	exit(1);
}

// at enters a step, at which DIE may end it.
static void at(const char *name) {
	step = name;
	const char *die = getenv("DIE");
	if (die && !strcmp(die, name)) exit(3);
}

static int number(const char *name, int otherwise) {
	const char *value = getenv(name);
	return value ? atoi(value) : otherwise;
}

static int tcp_connection(const char *server, int port) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	int s = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
	if (server) {
		inet_pton(AF_INET, server, &address.sin_addr);
		if (connect(s, (struct sockaddr *)&address, sizeof address)) fail("connect");
		return s;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	if (bind(s, (struct sockaddr *)&address, sizeof address) || listen(s, 1)) fail("listen");
	puts("listening");
	fflush(stdout);
	struct pollfd ready = {.fd = s, .events = POLLIN};
	if (poll(&ready, 1, 30000) != 1) fail("waiting for a client");
	int c = accept(s, NULL, NULL);
	close(s);
	return c;
}

static void say(int s, const void *data, size_t n) {
	if (write(s, data, n) != (ssize_t)n) fail("write");
}

static void hear(int s, void *data, size_t n) {
	for (size_t got = 0; got < n;) {
		ssize_t r = read(s, (char *)data + got, n - got);
		if (r <= 0) fail("read");
		got += r;
	}
}

static void swap(int s, const void *mine, void *theirs, size_t n) {
	say(s, mine, n);
	hear(s, theirs, n);
}

// The verbs: one region, one completion queue, and the queue pair that the next calls are
// about, of as many as there are.
#define MAX_QPS 16
static struct ibv_qp *qps[MAX_QPS];
static int qp_count = 1;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static char *buffer;
static union ibv_gid gid;
static uint16_t lid;
static int gid_index;

static void make(const char *device, int size, int depth) {
	at("make");
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), device)) context = ibv_open_device(*list);
	struct ibv_port_attr port;
	if (!context || ibv_query_port(context, 1, &port)) fail("ibv_open_device");
	lid = port.lid;
	if (ibv_query_gid(context, 1, gid_index, &gid)) fail("ibv_query_gid");
	buffer = calloc(1, size);
	pd = ibv_alloc_pd(context);
	mr = ibv_reg_mr(pd, buffer, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	cq = ibv_create_cq(context, depth, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .send_cq = cq, .recv_cq = cq,
		.cap = {.max_send_wr = depth, .max_recv_wr = depth, .max_send_sge = 1, .max_recv_sge = 1}};
	for (int i = 0; i < qp_count; i++)
		if (!(qps[i] = ibv_create_qp(pd, &init))) fail("making queue pairs");
	qp = qps[0];
	if (!mr || !cq) fail("making objects");
}

static void to_init(void) {
	at("init");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) fail("RESET to INIT");
}

static void to_rts(uint32_t qpn, uint16_t peer_lid, const void *peer_gid, int mtu, int rnr_timer, int timeout, int retry, int rnr_retry) {
	at("rtr");
	enum ibv_mtu code = mtu == 256 ? IBV_MTU_256 : mtu == 512 ? IBV_MTU_512 : mtu == 1024 ? IBV_MTU_1024 : mtu == 2048 ? IBV_MTU_2048 : IBV_MTU_4096;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR, .path_mtu = code, .dest_qp_num = qpn, .max_dest_rd_atomic = 1, .min_rnr_timer = rnr_timer,
		.ah_attr = {.is_global = 1, .dlid = peer_lid, .port_num = 1, .grh = {.hop_limit = 1, .sgid_index = gid_index}}};
	memcpy(&a.ah_attr.grh.dgid, peer_gid, 16);
	if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		fail("INIT to RTR");
	at("rts");
	struct ibv_qp_attr b = {.qp_state = IBV_QPS_RTS, .timeout = timeout, .retry_cnt = retry, .rnr_retry = rnr_retry, .max_rd_atomic = 1};
	if (ibv_modify_qp(qp, &b, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)) fail("RTR to RTS");
}

static void post_recv(int size) {
	struct ibv_sge sge = {(uintptr_t)buffer, size, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	if (ibv_post_recv(qp, &wr, &bad)) fail("ibv_post_recv");
}

static void post_send(enum ibv_wr_opcode opcode, int size, uint64_t remote, uint32_t rkey) {
	struct ibv_sge sge = {(uintptr_t)buffer, size, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .wr.rdma = {remote, rkey}}, *bad;
	if (ibv_post_send(qp, &wr, &bad)) fail("ibv_post_send");
}

// complete polls for one completion, for a limited time, and returns its length.
static int complete(int seconds) {
	struct ibv_wc wc;
	time_t limit = time(NULL) + seconds + 1;
	int n;
	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
		if (time(NULL) > limit) fail("a completion in time");
	if (n < 0) fail("ibv_poll_cq");
	if (wc.status) {
		fprintf(stderr, "cpeer: %s: completion with status %d, %s\n", step, wc.status, ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc.byte_len;
}

// RDMA_RC_example's job.
static void rc_example(const char *device, const char *server, int tcp) {
	struct __attribute__((packed)) data {
		uint64_t addr;
		uint32_t rkey, qp_num;
		uint16_t lid;
		uint8_t gid[16];
	} mine = {0}, theirs;
	_Static_assert(sizeof mine == 34, "the format has 34 bytes");
	char q;
	int size = number("SIZE", 16);

	make(device, size, 1);
	if (!server) snprintf(buffer, size, "sent from C");
	mine.addr = htobe64((uintptr_t)buffer);
	mine.rkey = htonl(mr->rkey);
	mine.qp_num = htonl(qp->qp_num);
	mine.lid = htons(lid);
	if (!getenv("NO_GID")) memcpy(mine.gid, &gid, 16);
	at("exchange");
	swap(tcp, &mine, &theirs, sizeof mine);
	to_init();
	if (server) post_recv(size);
	to_rts(ntohl(theirs.qp_num), ntohs(theirs.lid), theirs.gid, number("MTU", 256), 0x12, 0x12, 6, 0);
	at("Q");
	swap(tcp, "Q", &q, 1);
	if (!server) post_send(IBV_WR_SEND, size, 0, 0);
	at("first completion");
	complete(2);
	if (server)
		printf("received: %.*s\n", size, buffer);
	else
		snprintf(buffer, size, "read from C");
	at("R");
	swap(tcp, "R", &q, 1);
	if (server) {
		at("read");
		post_send(IBV_WR_RDMA_READ, size, be64toh(theirs.addr), ntohl(theirs.rkey));
		complete(2);
		printf("read: %.*s\n", size, buffer);
		snprintf(buffer, size, "written by C");
		at("write");
		post_send(IBV_WR_RDMA_WRITE, size, be64toh(theirs.addr), ntohl(theirs.rkey));
		complete(2);
	}
	at("W");
	swap(tcp, "W", &q, 1);
	if (!server) printf("written: %.*s\n", size, buffer);
}

// What the rocev2-learn programs tell of a queue pair.
struct __attribute__((packed)) learn_qp {
	uint32_t qp_num;
	uint16_t lid;
	uint8_t gid[16];
};
_Static_assert(sizeof(struct learn_qp) == 22, "the format has 22 bytes");

// The job of later copies: a message and a reply over each queue pair, all in one buffer.
// They write their queue pairs by one write each, and then read the peer's.
static void rocev2_learn_later(const char *device, const char *server, int tcp, uint32_t n, int size, int mtu) {
	struct learn_qp mine = {0}, theirs[MAX_QPS];
	uint32_t heard;
	char ready = 'R';
	if (n > MAX_QPS) fail("QPS");
	qp_count = n;
	make(device, size, 256);
	at("exchange");
	say(tcp, &n, sizeof n);
	mine.lid = lid;
	if (!getenv("NO_GID")) memcpy(mine.gid, &gid, 16);
	for (uint32_t i = 0; i < n; i++) {
		mine.qp_num = qps[i]->qp_num;
		say(tcp, &mine, sizeof mine);
	}
	hear(tcp, &heard, sizeof heard);
	if (heard != n) fail("as many queue pairs at both ends");
	hear(tcp, theirs, n * sizeof theirs[0]);
	for (uint32_t i = 0; i < n; i++) {
		qp = qps[i];
		to_init();
		to_rts(theirs[i].qp_num, theirs[i].lid, theirs[i].gid, mtu, 12, 14, 7, 7);
		post_recv(size);
	}
	at("ready");
	if (server) {
		hear(tcp, &ready, 1);
		snprintf(buffer, size, "message from C");
	} else {
		say(tcp, &ready, 1);
		for (uint32_t i = 0; i < n; i++) complete(5);
		printf("received %u: %s\n", n, buffer);
		snprintf(buffer, size, "reply from C");
	}
	at("send");
	for (uint32_t i = 0; i < n; i++) {
		qp = qps[i];
		post_send(IBV_WR_SEND, size, 0, 0);
	}
	for (uint32_t i = 0; i < n; i++) complete(5);
	if (!server) return;
	at("receive");
	for (uint32_t i = 0; i < n; i++) complete(5);
	printf("received %u: %s\n", n, buffer);
}

// The job of the rocev2-learn programs.
static void rocev2_learn(const char *device, const char *server, int tcp) {
	struct learn_qp mine = {0}, theirs;
	char ready = 'R';
	int size = number("SIZE", 4096), mtu = number("MTU", 1024);

	int later = number("QPS", 0);
	if (later) {
		rocev2_learn_later(device, server, tcp, later, size, mtu);
		return;
	}
	make(device, size, 16);
	mine.qp_num = qp->qp_num;
	mine.lid = lid;
	if (!getenv("NO_GID")) memcpy(mine.gid, &gid, 16);
	at("exchange");
	swap(tcp, &mine, &theirs, sizeof mine);
	to_init();
	to_rts(theirs.qp_num, theirs.lid, theirs.gid, mtu, 12, 14, 7, 7);
	if (!server) {
		post_recv(size);
		at("ready");
		say(tcp, &ready, 1);
		at("receive");
		complete(5);
		printf("received: %s\n", buffer);
		snprintf(buffer, size, "reply from C");
		at("reply");
		post_send(IBV_WR_SEND, size, 0, 0);
		complete(5);
		return;
	}
	at("ready");
	hear(tcp, &ready, 1);
	if (ready != 'R') fail("the server's R");
	snprintf(buffer, size, "message from C");
	at("send");
	post_send(IBV_WR_SEND, strlen(buffer) + 1, 0, 0);
	complete(5);
	post_recv(size);
	at("receive");
	int n = complete(5);
	printf("received %d: %s\n", n, buffer);
}

int main(int argc, char **argv) {
	if (argc < 5) fail("the command line");
	const char *device = argv[2], *server = argv[5];
	gid_index = atoi(argv[3]);
	int tcp = tcp_connection(server, atoi(argv[4]));
	if (!strcmp(argv[1], "rc-example"))
		rc_example(device, server, tcp);
	else
		rocev2_learn(device, server, tcp);
	at("end");
	puts("done");
	return 0;
}
