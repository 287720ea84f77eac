/* Signals of a program that has the software device open. The argument selects the case. */
#include "pair.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/time.h>
#include <sys/wait.h>

static sigjmp_buf back;
static volatile sig_atomic_t faults;
static volatile int *nowhere;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)context;
	if (sig == SIGSEGV && info->si_addr == (void *)nowhere)
		faults++;
	siglongjmp(back, 1);
}

/* fault reads memory that is not mapped. The handler must come, with its address. */
static void fault(void)
{
	int before = faults;
	if (!sigsetjmp(back, 1))
		*nowhere = 1;
	CHECK(faults == before + 1);
}

static void handle(int sig, void (*f)(int, siginfo_t *, void *))
{
	struct sigaction a = {.sa_sigaction = f, .sa_flags = SA_SIGINFO};
	CHECK(!sigaction(sig, &a, NULL));
}

/* A region that is unmapped must not disturb the program's handler, and its own faults must get there. */
static void segv(bool before)
{
	struct end a, b;
	if (before)
		handle(SIGSEGV, on_fault);
	pair_on(open_device(), &a, &b);
	if (!before)
		handle(SIGSEGV, on_fault);
	for (int i = 0; i < 3; i++)
		fault();
	unmap(b.buf, LENGTH);
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, &b, 8, 1));
	CHECK(completion(a.cq).status == IBV_WC_REM_ACCESS_ERR);
	CHECK(faults == 3);
	fault();
	struct sigaction old;
	CHECK(!sigaction(SIGSEGV, NULL, &old) && old.sa_sigaction == on_fault);
	CHECK(old.sa_flags & SA_SIGINFO);
}

/* What the kernel does for SA_RESETHAND, SA_NODEFER, sa_mask. */
static volatile sig_atomic_t masked;
static void on_masked(int sig)
{
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	masked = sigismember(&mask, sig) + 2 * sigismember(&mask, SIGUSR1) + 4 * sigismember(&mask, SIGUSR2);
	siglongjmp(back, 1);
}

/* The names of signal in other systems also leave the device its faults, and get the program's. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
sighandler_t bsd_signal(int sig, sighandler_t handler);
static void old_names(void)
{
	sighandler_t (*const all[])(int, sighandler_t) = {bsd_signal, ssignal, sysv_signal, sigset};
	for (volatile int i = 0; i < 4; i++) {
		CHECK(signal(SIGSEGV, SIG_DFL) != SIG_ERR);
		CHECK(all[i](SIGSEGV, on_masked) == SIG_DFL);
		masked = -1;
		if (!sigsetjmp(back, 1))
			*nowhere = 1;
		CHECK(masked == (all[i] == sysv_signal ? 0 : 1));
	}
	CHECK(sigset(SIGUSR2, SIG_HOLD) == SIG_DFL && sigset(SIGUSR2, on_masked) == SIG_HOLD);
	CHECK(sigset(SIGUSR2, SIG_DFL) == on_masked);
	CHECK(!sigignore(SIGSEGV) && signal(SIGSEGV, SIG_DFL) == SIG_IGN);
	struct end a, b;
	pair_on(open_device(), &a, &b);
	unmap(b.buf, LENGTH);
	CHECK(!post(&a, IBV_WR_RDMA_WRITE, &b, 8, 1));
	CHECK(completion(a.cq).status == IBV_WC_REM_ACCESS_ERR);
}

static void flags(void)
{
	CHECK(open_device());
	struct sigaction a = {.sa_handler = on_masked}, old;
	sigaddset(&a.sa_mask, SIGUSR1);
	CHECK(!sigaction(SIGSEGV, &a, NULL));
	if (!sigsetjmp(back, 1))
		*nowhere = 1;
	CHECK(masked == 3);
	a.sa_flags = SA_NODEFER | SA_RESETHAND;
	CHECK(!sigaction(SIGSEGV, &a, NULL));
	if (!sigsetjmp(back, 1))
		*nowhere = 1;
	CHECK(masked == 2);
	CHECK(!sigaction(SIGSEGV, NULL, &old) && old.sa_handler == SIG_DFL);
	CHECK(signal(SIGSEGV, on_masked) == SIG_DFL && signal(SIGSEGV, SIG_IGN) == on_masked);
	CHECK(!kill(getpid(), SIGSEGV)); /* ignored */
	old_names();
}

/* Without a handler the program dies of its fault, as without the device. */
static void death(void)
{
	CHECK(open_device());
	*nowhere = 1;
}

static void killed(int sig)
{
	CHECK(open_device());
	kill(getpid(), sig);
	for (;;)
		pause(); /* any thread may get the signal, now or later */
}

static void broken_pipe(void)
{
	CHECK(open_device());
	int p[2];
	CHECK(!pipe(p) && !close(p[0]));
	CHECK(write(p[1], "x", 1) == 1);
}

/* The stack of a handler must not be that of a goroutine, so handlers get SA_ONSTACK. */
static void ignore(int sig) { (void)sig; }
static void on_stack(void)
{
	struct sigaction a = {.sa_handler = ignore};
	CHECK(!sigaction(SIGTSTP, &a, NULL) && signal(SIGUSR1, ignore) == SIG_DFL);
	CHECK(open_device());
	CHECK(!sigaction(SIGALRM, &a, NULL) && signal(SIGUSR2, ignore) == SIG_DFL);
	const int sigs[] = {SIGTSTP, SIGUSR1, SIGALRM, SIGUSR2};
	for (int i = 0; i < 4; i++)
		CHECK(!sigaction(sigs[i], NULL, &a) && a.sa_handler == ignore && a.sa_flags & SA_ONSTACK);
	CHECK(!sigaction(SIGPIPE, NULL, &a) && a.sa_handler == SIG_DFL);
	CHECK(!sigaction(SIGURG, NULL, &a) && a.sa_handler == SIG_DFL);
}

/* Signals in plenty while packets go: the handler runs only in threads of the program. */
static pthread_t mine;
static volatile sig_atomic_t alarms, strangers;
static void on_alarm(int sig)
{
	(void)sig;
	char frame[8192]; /* more than a goroutine's stack has */
	memset(frame, 1, sizeof frame);
	__asm__ volatile("" : : "r"(frame) : "memory");
	alarms++;
	if (!pthread_equal(pthread_self(), mine))
		strangers++;
}

static void storm(int which, int sig)
{
	struct end a, b;
	mine = pthread_self();
	signal(sig, on_alarm);
	pair_on(open_device(), &a, &b);
	struct itimerval every = {{0, 200}, {0, 200}};
	CHECK(!setitimer(which, &every, NULL));
	for (double limit = now() + LIMIT; alarms < 500 && now() < limit;)
		exchange(&a, &b, 9000);
	every = (struct itimerval){0};
	setitimer(which, &every, NULL);
	fprintf(stderr, "%d signals, %d in other threads\n", (int)alarms, (int)strangers);
	CHECK(alarms >= 500 && strangers == 0);
}

/* Go's runtime sends its threads no SIGURG, not even when it collects garbage. */
static void *work(void *context)
{
	for (int i = 0; i < 300; i++) { /* the four threads' garbage is collected some 20 times */
		struct end x, y;
		pair_on(context, &x, &y);
		exchange(&x, &y, LENGTH);
		free_end(&x);
		free_end(&y);
	}
	return NULL;
}

static void urgent(void)
{
	pthread_t threads[4];
	signal(SIGURG, on_alarm);
	struct ibv_context *context = open_device();
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_create(&threads[i], NULL, work, context));
	for (int i = 0; i < 4; i++)
		CHECK(!pthread_join(threads[i], NULL));
	CHECK(alarms == 0);
	kill(getpid(), SIGURG);
	CHECK(alarms == 1);
}

/* Signals that all threads block stay pending for sigwait and signalfd. */
static void waiting(void)
{
	sigset_t set, mask;
	const int sigs[] = {SIGCHLD, SIGPROF, SIGURG, SIGPIPE, SIGUSR1, SIGINT, SIGRTMIN};
	sigemptyset(&set);
	for (int i = 0; i < 7; i++)
		sigaddset(&set, sigs[i]);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
	struct end a, b;
	pair_on(open_device(), &a, &b);
	exchange(&a, &b, 100);
	CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &mask));
	for (int i = 0; i < 7; i++)
		CHECK(sigismember(&mask, sigs[i]));
	int fd = signalfd(-1, &set, SFD_CLOEXEC);
	for (int i = 0; i < 7; i++) {
		struct signalfd_siginfo info;
		CHECK(!kill(getpid(), sigs[i]));
		usleep(1000);
		CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == (unsigned)sigs[i]);
	}
}

/* A thread that blocks everything can still access unmapped memory for the device. */
static void *blocked(void *arg)
{
	struct end *a = arg;
	CHECK(!post(a, IBV_WR_SEND, a, 8, 1));
	CHECK(completion(a->cq).status == IBV_WC_LOC_PROT_ERR);
	return NULL;
}

static void block_all(void)
{
	struct end a, b;
	sigset_t all;
	pthread_t thread;
	pair_on(open_device(), &a, &b);
	unmap(a.buf, LENGTH);
	sigfillset(&all);
	CHECK(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	CHECK(!pthread_create(&thread, NULL, blocked, &a) && !pthread_join(thread, NULL));
}

/* setuid sends a signal to all threads and waits for each. */
static void identity(void)
{
	struct end a, b;
	pair_on(open_device(), &a, &b);
	for (int i = 0; i < 50; i++) {
		exchange(&a, &b, 100);
		CHECK(!setuid(getuid()));
	}
}

/* The threads that exist block all that a program handles. */
static void masks(void)
{
	struct end a, b;
	pair_on(open_device(), &a, &b);
	for (int i = 0; i < 100; i++)
		exchange(&a, &b, 5000);
	int threads = 0;
	DIR *tasks = opendir("/proc/self/task");
	for (struct dirent *d; (d = readdir(tasks));) {
		char path[300], line[256];
		unsigned long long mask = 0;
		if (d->d_name[0] == '.' || atoi(d->d_name) == getpid())
			continue;
		snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
		FILE *f = fopen(path, "r");
		CHECK(f);
		while (fgets(line, sizeof line, f))
			sscanf(line, "SigBlk: %llx", &mask);
		fclose(f);
		const int sigs[] = {SIGCHLD, SIGPROF, SIGURG, SIGPIPE, SIGUSR1, SIGINT, SIGALRM, SIGTERM, SIGRTMIN};
		for (int i = 0; i < 9; i++)
			CHECK(mask >> (sigs[i] - 1) & 1);
		threads++;
	}
	CHECK(threads >= 3);
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	nowhere = (int *)(page + 64);
	const char *c = argv[1];
	if (!strcmp(c, "before"))
		segv(true);
	else if (!strcmp(c, "after"))
		segv(false);
	else if (!strcmp(c, "flags"))
		flags();
	else if (!strcmp(c, "death"))
		death();
	else if (!strcmp(c, "kill"))
		killed(SIGSEGV);
	else if (!strcmp(c, "kill-bus"))
		killed(SIGBUS);
	else if (!strcmp(c, "pipe"))
		broken_pipe();
	else if (!strcmp(c, "on-stack"))
		on_stack();
	else if (!strcmp(c, "alarm"))
		storm(ITIMER_REAL, SIGALRM);
	else if (!strcmp(c, "prof"))
		storm(ITIMER_PROF, SIGPROF);
	else if (!strcmp(c, "urgent"))
		urgent();
	else if (!strcmp(c, "waiting"))
		waiting();
	else if (!strcmp(c, "block-all"))
		block_all();
	else if (!strcmp(c, "identity"))
		identity();
	else if (!strcmp(c, "masks"))
		masks();
	else
		CHECK(!"a case");
	puts("ok");
	return 0;
}
