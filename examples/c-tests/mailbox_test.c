/*
 * Tests of the mailbox. They need an RDMA device: hardware, or rawverbs run -- ./mailbox_test.
 */
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* CHECK ends the process if a condition does not hold. */
#define CHECK(condition)                                                              \
	do {                                                                          \
		if (!(condition)) {                                                   \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                      \
		}                                                                     \
	} while (0)

static const char hello[] = "hello from the other end";

static void connected(struct mailbox *a, struct mailbox *b)
{
	CHECK(!mailbox_open(a));
	CHECK(!mailbox_open(b));
	struct mailbox_address to_a = mailbox_address(a), to_b = mailbox_address(b);
	CHECK(!mailbox_connect(a, &to_b));
	CHECK(!mailbox_connect(b, &to_a));
}

static void test_one_process(void)
{
	struct mailbox a, b;
	connected(&a, &b);
	for (int i = 0; i < 3; i++) {
		CHECK(mailbox_put(&a, hello, sizeof hello, 0) == IBV_WC_SUCCESS);
		CHECK(mailbox_get(&b) == sizeof hello);
		CHECK(!strcmp(b.memory, hello));
	}
	mailbox_close(&a);
	mailbox_close(&b);
}

/* What hardware refuses, the software device refuses: a WRITE that ends beyond the region. */
static void test_beyond_the_end(void)
{
	struct mailbox a, b;
	connected(&a, &b);
	CHECK(mailbox_put(&a, hello, sizeof hello, 2 * MAILBOX_SIZE - sizeof hello + 1) == IBV_WC_REM_ACCESS_ERR);
	CHECK(b.memory[2 * MAILBOX_SIZE - 1] == 0);
	CHECK(mailbox_get(&a) == -1); /* a's queue pair is in ERR, so its receive is flushed */
	mailbox_close(&a);
	mailbox_close(&b);
}

/* exchange sends an address through a socket, connects to the one it gets, and waits for the peer. */
static void exchange(struct mailbox *m, int fd)
{
	struct mailbox_address mine = mailbox_address(m), peer;
	char ready = 0;
	CHECK(write(fd, &mine, sizeof mine) == sizeof mine);
	CHECK(read(fd, &peer, sizeof peer) == sizeof peer);
	CHECK(!mailbox_connect(m, &peer));
	CHECK(write(fd, &ready, 1) == 1);
	CHECK(read(fd, &ready, 1) == 1);
}

static void test_two_processes(void)
{
	struct mailbox m;
	int fds[2], status;
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	pid_t child = fork(); /* before the device is opened: its objects belong to one process */
	CHECK(child >= 0);
	CHECK(!mailbox_open(&m));
	exchange(&m, fds[child == 0]);
	if (child == 0) {
		CHECK(mailbox_put(&m, hello, sizeof hello, 0) == IBV_WC_SUCCESS);
		exit(0);
	}
	CHECK(mailbox_get(&m) == sizeof hello);
	CHECK(!strcmp(m.memory, hello));
	CHECK(wait(&status) == child && status == 0);
	mailbox_close(&m);
}

#define RUN(test)               \
	do {                    \
		test();         \
		puts("ok " #test); \
		fflush(stdout); \
	} while (0)

int main(void)
{
	RUN(test_two_processes); /* first, because it forks */
	RUN(test_one_process);
	RUN(test_beyond_the_end);
	return 0;
}
