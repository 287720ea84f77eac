/* Opening, closing and ending. The argument selects the case. */
#include "pair.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int descriptors(void)
{
	int n = 0;
	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A device that is closed with objects takes them with it. It can be opened again. */
static void left(void)
{
	int before = 0;
	for (int i = 0; i < 20; i++) {
		struct end a, b;
		struct ibv_context *context = open_device();
		pair_on(context, &a, &b);
		exchange(&a, &b, 5000);
		struct ibv_srq_init_attr shared = {.attr = {.max_wr = 8, .max_sge = 1}};
		union ibv_gid gid;
		CHECK(ibv_create_srq(a.pd, &shared));
		CHECK(ibv_alloc_mw(a.pd, IBV_MW_TYPE_1));
		CHECK(!ibv_query_gid(context, 1, 1, &gid));
		struct ibv_ah_attr path = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 1}};
		CHECK(ibv_create_ah(a.pd, &path));
		CHECK(!ibv_close_device(context));
		close(a.channel->fd); /* a channel is not of the device */
		close(b.channel->fd);
		if (i == 5)
			before = descriptors();
	}
	/* Each round leaks the other ends of two channels, and nothing else. */
	CHECK(descriptors() - before == 14 * 2);
}

/* Two openings are one device, but close their own objects. */
static void twice(void)
{
	struct ibv_context *first = open_device(), *second = open_device();
	CHECK(first && second && first != second);
	union ibv_gid gids[2];
	CHECK(!ibv_query_gid(first, 1, 1, &gids[0]) && !ibv_query_gid(second, 1, 1, &gids[1]));
	CHECK(!memcmp(&gids[0], &gids[1], sizeof gids[0]));
	struct end a = end_on(first), b = end_on(second), x, y;
	connect_to(&a, second, b.qp->qp_num);
	connect_to(&b, first, a.qp->qp_num);
	exchange(&a, &b, 5000);
	pair_on(second, &x, &y);
	CHECK(!ibv_close_device(first));
	exchange(&x, &y, 5000);
	CHECK(!post(&b, IBV_WR_RDMA_WRITE, &a, 8, 1));
	CHECK(completion(b.cq).status == IBV_WC_RETRY_EXC_ERR); /* the other queue pair is gone */
	free_end(&b);
	free_end(&x);
	free_end(&y);
	CHECK(!ibv_close_device(second));
}

/* A library that the program loads and unloads. */
static void unload(void)
{
	for (int i = 0; i < 3; i++) {
		void *library = dlopen("libibverbs.so.1", RTLD_NOW);
		CHECK(library);
		struct ibv_context *(*open)(struct ibv_device *) = dlsym(library, "ibv_open_device");
		struct ibv_device **(*list)(int *) = dlsym(library, "ibv_get_device_list");
		CHECK(open && list);
		struct end a, b;
		struct ibv_context *context = open_device();
		pair_on(context, &a, &b);
		exchange(&a, &b, 100);
		CHECK(!dlclose(library));
		exchange(&a, &b, 100);
		CHECK(!ibv_close_device(context));
	}
}

/* Too little address space is an error, and its message says so. */
static void memory(void)
{
	struct rlimit limit = {256 << 20, 256 << 20};
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	CHECK(!open_device() && errno == ENOMEM);
}

/* So is a limit of 0 on queued signals. */
static void pending(void)
{
	struct rlimit limit = {0, 0};
	CHECK(!setrlimit(RLIMIT_SIGPENDING, &limit));
	CHECK(!open_device() && errno == EAGAIN);
}

/* If the core cannot be loaded, the program still gets its own faults. */
static sigjmp_buf after_fault;
static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(after_fault, 1);
}

static void no_core(void)
{
	CHECK(!setenv("RAWVERBS_CORE", "/nonexistent", 1));
	CHECK(!open_device() && errno == ENOENT);
	CHECK(signal(SIGSEGV, on_fault) == SIG_DFL);
	if (!sigsetjmp(after_fault, 1)) {
		*(volatile int *)NULL = 1;
		CHECK(!"a fault");
	}
}

/*
 * Two processes: the second posts a receive, polls its completion and exits without closing. The
 * first must still get the acknowledgement, not RETRY_EXC_ERR. how: by return, by exit in a
 * signal handler, or in a child that was forked meanwhile.
 */
struct address {
	union ibv_gid gid;
	uint32_t qpn;
};

static struct ibv_context *stranger;
static struct end peer;
static void connect_over(struct end *e, int fd, bool receives)
{
	struct address mine = {.qpn = e->qp->qp_num}, other;
	CHECK(!ibv_query_gid(e->context, 1, 1, &mine.gid));
	CHECK(write(fd, &mine, sizeof mine) == sizeof mine && read(fd, &other, sizeof other) == sizeof other);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	CHECK(!ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	CHECK(!receives || !post_recv(e, 1));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = other.qpn,
				    .max_dest_rd_atomic = 4, .min_rnr_timer = 12,
				    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = other.gid, .sgid_index = 1, .hop_limit = 1}}};
	CHECK(!ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 18 /* 1 s */, .retry_cnt = 7, .rnr_retry = 7,
				    .max_rd_atomic = 4};
	CHECK(!ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					       IBV_QP_MAX_QP_RD_ATOMIC));
	char ready = 1;
	CHECK(write(fd, &ready, 1) == 1 && read(fd, &ready, 1) == 1);
}

static void quit(int sig)
{
	(void)sig;
	exit(0);
}

static void receive_and_exit(int fd, bool in_handler)
{
	CHECK(stranger = open_device());
	peer = end_on(stranger);
	connect_over(&peer, fd, true);
	CHECK(completion(peer.cq).status == IBV_WC_SUCCESS);
	if (in_handler) {
		signal(SIGUSR1, quit);
		raise(SIGUSR1);
	}
	exit(0);
}

static void ends(bool in_handler)
{
	for (int i = 0; i < 20; i++) {
		int fds[2];
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
		pid_t pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			receive_and_exit(fds[1], in_handler);
		pid_t sender = fork();
		CHECK(sender >= 0);
		if (!sender) {
			struct end e = end_on(open_device());
			connect_over(&e, fds[0], false);
			usleep(2000); /* the receiver polls */
			CHECK(!post(&e, IBV_WR_SEND, &e, 64, 1));
			struct ibv_wc wc = completion(e.cq);
			if (wc.status)
				fprintf(stderr, "run %d: %s\n", i, ibv_wc_status_str(wc.status));
			exit(wc.status != IBV_WC_SUCCESS);
		}
		int status[2];
		CHECK(waitpid(pid, &status[0], 0) == pid && waitpid(sender, &status[1], 0) == sender);
		CHECK(!status[0] && !status[1]);
		close(fds[0]);
		close(fds[1]);
	}
}

static void exited(int i, pid_t pid)
{
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status)
		fprintf(stderr, "run %d: status %#x\n", i, status);
	CHECK(!status);
}

/*
 * exit in a handler that interrupts the core must end the program. Such an exit takes LINGER_NS of the shim,
 * so several runs go at once.
 */
static void exit_anywhere(void)
{
	enum { RUNS = 100, AT_ONCE = 10 };
	pid_t pids[RUNS];
	for (int i = 0; i < RUNS; i++) {
		if (i >= AT_ONCE)
			exited(i - AT_ONCE, pids[i - AT_ONCE]);
		pid_t pid = pids[i] = fork();
		CHECK(pid >= 0);
		if (!pid) {
			struct end a, b;
			alarm(LIMIT);
			signal(SIGUSR1, quit);
			pair_on(open_device(), &a, &b);
			/* Within fork, which holds locks of libc, exit would wait for itself. */
			sigset_t no;
			sigemptyset(&no);
			sigaddset(&no, SIGUSR1);
			CHECK(!sigprocmask(SIG_BLOCK, &no, NULL));
			pid_t killer = fork();
			if (!killer) {
				usleep(500 + 37 * i);
				kill(getppid(), SIGUSR1);
				_exit(0);
			}
			CHECK(!sigprocmask(SIG_UNBLOCK, &no, NULL));
			for (;;)
				exchange(&a, &b, 9000);
		}
	}
	for (int i = RUNS - AT_ONCE; i < RUNS; i++)
		exited(i, pids[i]);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	if (!strcmp(argv[1], "left"))
		left();
	else if (!strcmp(argv[1], "twice"))
		twice();
	else if (!strcmp(argv[1], "unload"))
		unload();
	else if (!strcmp(argv[1], "memory"))
		memory();
	else if (!strcmp(argv[1], "pending"))
		pending();
	else if (!strcmp(argv[1], "no-core"))
		no_core();
	else if (!strcmp(argv[1], "exit"))
		ends(false);
	else if (!strcmp(argv[1], "exit-in-handler"))
		ends(true);
	else if (!strcmp(argv[1], "exit-anywhere"))
		exit_anywhere();
	else
		CHECK(!"a case");
	puts("ok");
	return 0;
}
