/*
 * Loading the core. It is loaded when a program opens the software device, so that programs that
 * only list devices, and shells, never start a Go runtime.
 *
 * A fork copies only the thread that forks, so the child's core is dead: objects of the parent
 * answer EIO there (lost). If the child opens a device, it loads the core once more.
 */
#include "shim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NEEDED_ADDRESS_SPACE (2ul << 30) /* Go reserves most of it and uses little */

unsigned core_generation = 1;
__thread unsigned thread_generation;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct core core;
static bool loaded; /* by this process */
static bool forks_handled; /* by the functions below */
static unsigned loads; /* that succeeded, also those of the parents */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }
static void in_child(void)
{
	core_generation++;
	loaded = false;
	signals_forked();
	devices_forked();
	dms_forked();
	buffers_forked();
	pthread_mutex_unlock(&lock);
}

/*
 * copy_of writes the path of a copy of a file. The linker would take the file itself for the
 * library of the parent. It also knows libraries by their path, which must differ from those of
 * earlier copies.
 */
static bool copy_of(const char *file, char *path, size_t size)
{
	int from = open(file, O_RDONLY | O_CLOEXEC), to = memfd_create("librawverbs-core.so", MFD_CLOEXEC);
	struct stat info;
	off_t at = 0;
	bool ok = from >= 0 && to >= 0 && !fstat(from, &info);
	while (ok && at < info.st_size)
		ok = sendfile(to, from, &at, info.st_size - at) > 0;
	if (from >= 0)
		close(from);
	if (!ok) {
		if (to >= 0)
			close(to);
		return false;
	}
	int length = snprintf(path, size, "/proc/self/fd/");
	for (unsigned i = 0; i < loads; i++)
		length += snprintf(path + length, size - length, "./");
	snprintf(path + length, size - length, "%d", to);
	return true;
}

static void *open_path(const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		fprintf(stderr,
			"rawverbs: loading the software device: %s; "
			"try: rawverbs run -- COMMAND, which sets RAWVERBS_CORE\n",
			dlerror());
	return library;
}

/* open_library loads a library that may be loaded already, by a parent. It prints why it fails. */
static void *open_library(const char *file)
{
	if (!loads)
		return open_path(file);
	char path[4096];
	enum { MOST = 1000 }; /* of nested children that load, so that the path fits */
	if (loads > MOST || !copy_of(file, path, sizeof path)) {
		fprintf(stderr, "rawverbs: a child cannot copy %s: %s; try: open the device in the parent only\n", file, strerror(errno));
		return NULL;
	}
	void *library = open_path(path);
	close(atoi(strrchr(path, '/') + 1));
	return library;
}

/* Go ends the process if it gets too little address space, so ask first. */
static bool enough_memory(void)
{
	const rlim_t need = NEEDED_ADDRESS_SPACE;
	struct rlimit limit;
	unsigned long used = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (f) {
		if (fscanf(f, "%lu", &used) != 1)
			used = 0;
		fclose(f);
	}
	used *= sysconf(_SC_PAGESIZE);
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= used + need)
		return true;
	fprintf(stderr,
		"rawverbs: the software device needs %lu MiB of address space, and ulimit -v leaves %lu MiB; "
		"try: ulimit -v unlimited\n",
		(unsigned long)(need >> 20), (unsigned long)(limit.rlim_cur > used ? limit.rlim_cur - used : 0) >> 20);
	errno = ENOMEM;
	return false;
}

/* Threads of Go send themselves a signal with a value (core/threads.c), which the kernel has to queue. */
static bool signals_queue(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_SIGPENDING, &limit) || limit.rlim_cur > 0)
		return true;
	fprintf(stderr, "rawverbs: the software device needs queued signals, and ulimit -i is 0; try: ulimit -i 64\n");
	errno = EAGAIN;
	return false;
}

/* load fills core. The caller holds the lock. */
static bool load(void)
{
	const char *path = getenv("RAWVERBS_CORE");
	if (!path)
		path = "librawverbs-core.so";
	if (!enough_memory() || !signals_queue())
		return false;
	if (!forks_handled && pthread_atfork(before_fork, in_parent, in_child)) {
		errno = ENOMEM;
		return false;
	}
	forks_handled = true;
	signals_before_load();
	void *library = open_library(path);
	signals_after_load(library);
	if (!library) {
		errno = ENOENT;
		return false;
	}
	loads++;
#define RV_LOAD(type, name, arguments)                                                                       \
	if (!(core.name = (type(*) arguments)dlsym(library, #name))) {                                       \
		fprintf(stderr, "rawverbs: %s has no %s; try: make, which builds both libraries\n", \
			path, #name);                                                                        \
		errno = ENOEXEC;                                                                             \
		return false;                                                                                \
	}
	RV_CORE(RV_LOAD)
	signals_core_at(core.rv_open);
	return true;
}

struct core *core_load(void)
{
	int before = errno;
	pthread_mutex_lock(&lock);
	bool ok = loaded || (loaded = load());
	pthread_mutex_unlock(&lock);
	if (!ok)
		return NULL;
	thread_enter(&core);
	errno = before;
	return &core;
}

/*
 * thread_enter makes the thread known to Go, which sets the thread's signal mask. The program's
 * mask is put back, except for faults in memory that the program unmaps.
 */
void thread_enter(struct core *c)
{
	if (thread_generation == core_generation)
		return;
	sigset_t mask;
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	c->rv_enter();
	sigdelset(&mask, SIGSEGV);
	sigdelset(&mask, SIGBUS);
	sigdelset(&mask, SIGFPE);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	thread_generation = core_generation;
}

static void *send_answers(void *arg)
{
	core.rv_flush();
	sem_post(arg);
	return NULL;
}

/*
 * A program that exits without closing its devices may owe an acknowledgement, which leaves with
 * the next poll. A thread of its own sends it, because exit may be called by a signal handler
 * that interrupted the core.
 */
#define LINGER_NS 200000000 /* on a loaded host; usually 0.1 ms suffice */

__attribute__((destructor)) static void leave(void)
{
	static sem_t sent;
	pthread_t thread;
	struct timespec limit;
	if (!loaded || sem_init(&sent, 0, 0) || pthread_create(&thread, NULL, send_answers, &sent))
		return;
	pthread_detach(thread);
	clock_gettime(CLOCK_MONOTONIC, &limit); /* nobody sets it */
	limit.tv_nsec += LINGER_NS;
	if (limit.tv_nsec >= 1000000000) {
		limit.tv_nsec -= 1000000000;
		limit.tv_sec++;
	}
	while (sem_clockwait(&sent, CLOCK_MONOTONIC, &limit) && errno == EINTR)
		;
}
