/*
 * Signals of a process that has a Go runtime in it.
 *
 *  1. Go wants SIGSEGV, SIGBUS and SIGFPE, for memory that the program unmaps while it is
 *     registered. on_fault gives the core the faults of its own instructions, and the program all
 *     others. The program's handlers are kept here, whether it sets them before or after.
 *  2. Go also wants SIGPIPE and SIGURG. It does not get them.
 *  3. Go's threads must not run the program's handlers, nor take signals for which the program
 *     waits with sigwait or signalfd. They are born with all signals blocked. Go unblocks some of
 *     them in a new thread, so the thread blocks them again (cabi/core/threads.c).
 *  4. Handlers get SA_ONSTACK: a signal may interrupt Go code, which has a small stack.
 *
 * Until the core is loaded, calls pass through.
 */
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE};
enum { FAULTS = sizeof faults / sizeof faults[0], SIGNALS = 64, SIGCANCEL = 32, SIGSETXID = 33 /* glibc's own */ };

static struct {
	struct sigaction program, core;
} chain[FAULTS];
static atomic_flag busy; /* held while chain is read or written; all signals are blocked */
static atomic_bool active; /* the core is loaded, or is being loaded */
static __thread bool loading __attribute__((tls_model("initial-exec"))); /* the caller of sigaction is the core */
static sigset_t before_load;
static bool was_active; /* before the load */
static uintptr_t core_start, core_end; /* the core's instructions */

static int (*real_sigaction)(int, const struct sigaction *, struct sigaction *);
static sighandler_t (*real_signal)(int, sighandler_t);
static sighandler_t (*real_sysv_signal)(int, sighandler_t);
static sighandler_t (*real_sigset)(int, sighandler_t);

/* A constructor, because handlers may call sigaction but not dlsym. */
__attribute__((constructor)) static void find_real(void)
{
	real_sigaction = dlsym(RTLD_NEXT, "sigaction");
	real_signal = dlsym(RTLD_NEXT, "signal");
	real_sysv_signal = dlsym(RTLD_NEXT, "__sysv_signal");
	real_sigset = dlsym(RTLD_NEXT, "sigset");
}

static int chained(int sig)
{
	for (int i = 0; i < FAULTS; i++)
		if (faults[i] == sig)
			return i;
	return -1;
}

static bool has_handler(const struct sigaction *a)
{
	return a->sa_flags & SA_SIGINFO || (a->sa_handler != SIG_DFL && a->sa_handler != SIG_IGN);
}

/* swap reads and writes the program's action. old and new may be NULL. */
static void swap(int i, const struct sigaction *new, struct sigaction *old)
{
	sigset_t all, mask;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	while (atomic_flag_test_and_set(&busy))
		;
	struct sigaction before = chain[i].program;
	if (new)
		chain[i].program = *new;
	atomic_flag_clear(&busy);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (old)
		*old = before;
}

static bool in_core(const ucontext_t *context)
{
#if defined __x86_64__
	uintptr_t at = context->uc_mcontext.gregs[REG_RIP];
#elif defined __aarch64__
	uintptr_t at = context->uc_mcontext.pc;
#else
#error "signals.c does not know this processor"
#endif
	return at >= core_start && at < core_end;
}

/* hush blocks, when the handler returns, all signals but those that the thread itself causes. */
static void hush(ucontext_t *context)
{
	static const int own[] = {SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGCANCEL, SIGSETXID};
	uint64_t mask = ~0ull;
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		mask &= ~(1ull << (own[i] - 1));
	memcpy(&context->uc_sigmask, &mask, sizeof mask); /* the kernel's mask is shorter than glibc's */
}

/* pass does with a fault of the program what the kernel would do. */
static void pass(int sig, siginfo_t *info, ucontext_t *context)
{
	bool sent = info->si_code <= 0; /* by kill and the like */
	struct sigaction a, reset = {.sa_handler = SIG_DFL};
	swap(chained(sig), NULL, &a);
	if (!has_handler(&a)) {
		if (sent && a.sa_handler == SIG_IGN)
			return;
		real_sigaction(sig, &reset, NULL);
		if (sent)
			syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), sig);
		return; /* the instruction faults again */
	}
	if (a.sa_flags & SA_RESETHAND)
		swap(chained(sig), &reset, NULL);
	sigset_t mask = a.sa_mask, interrupted;
	sigemptyset(&interrupted);
	memcpy(&interrupted, &context->uc_sigmask, sizeof(uint64_t));
	sigorset(&mask, &a.sa_mask, &interrupted);
	if (!(a.sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(sig, info, context);
	else
		a.sa_handler(sig);
}

/* on_fault is the handler of the faults. All signals are blocked while it runs. */
static void on_fault(int sig, siginfo_t *info, void *context)
{
	int error = errno;
	if (info->si_code == SI_QUEUE && info->si_value.sival_ptr == RV_NEW_THREAD)
		hush(context);
	else if (info->si_code > 0 && in_core(context))
		chain[chained(sig)].core.sa_sigaction(sig, info, context);
	else
		pass(sig, info, context);
	errno = error;
}

/* core_sigaction is sigaction for the core, while it is loaded. */
static int core_sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	int i = chained(sig);
	if (old)
		*old = (struct sigaction){.sa_handler = SIG_DFL};
	if (i < 0 || !new)
		return 0; /* no others: on_stack has done what Go wants */
	chain[i].core = *new;
	struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	sigfillset(&ours.sa_mask);
	return real_sigaction(sig, &ours, NULL);
}

/* on_stack gives the program's handlers SA_ONSTACK. */
static void on_stack(void)
{
	struct sigaction a;
	for (int sig = 1; sig <= SIGNALS; sig++)
		if (!real_sigaction(sig, NULL, &a) && has_handler(&a) && !(a.sa_flags & SA_ONSTACK)) {
			a.sa_flags |= SA_ONSTACK;
			real_sigaction(sig, &a, NULL);
		}
}

void signals_before_load(void)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before_load);
	was_active = active;
	if (!active) { /* else the parent has loaded a core, and the kernel knows on_fault */
		for (int i = 0; i < FAULTS; i++)
			real_sigaction(faults[i], NULL, &chain[i].program);
		active = true;
		on_stack();
	}
	loading = true;
}

void signals_after_load(bool loaded)
{
	loading = false;
	if (!loaded && !was_active) { /* no core is there; threads may have set actions meanwhile */
		active = false;
		for (int i = 0; i < FAULTS; i++)
			real_sigaction(faults[i], &chain[i].program, NULL);
	}
	pthread_sigmask(SIG_SETMASK, &before_load, NULL);
}

void signals_forked(void) { atomic_flag_clear(&busy); }

/* segment finds the instructions that contain *function. */
static int segment(struct dl_phdr_info *library, size_t size, void *function)
{
	(void)size;
	for (int i = 0; i < library->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &library->dlpi_phdr[i];
		uintptr_t start = library->dlpi_addr + p->p_vaddr, end = start + p->p_memsz;
		if (p->p_type == PT_LOAD && (uintptr_t)function >= start && (uintptr_t)function < end) {
			core_start = start;
			core_end = end;
			return 1;
		}
	}
	return 0;
}

void signals_core_at(void *function) { dl_iterate_phdr(segment, function); }

bool signals_restart(void)
{
	LEAVE_ERRNO; /* numbers that libc keeps for itself are invalid */
	struct sigaction a;
	for (int sig = 1; sig <= SIGNALS; sig++)
		if (chained(sig) < 0 && !real_sigaction(sig, NULL, &a) && has_handler(&a) && !(a.sa_flags & SA_RESTART))
			return false;
	return true;
}

int sigaction(int sig, const struct sigaction *new, struct sigaction *old)
{
	if (!real_sigaction)
		find_real();
	if (loading)
		return core_sigaction(sig, new, old);
	if (!active)
		return real_sigaction(sig, new, old);
	struct sigaction a;
	if (new)
		a = *new;
	int i = chained(sig);
	if (i >= 0) {
		swap(i, new ? &a : NULL, old);
		return 0;
	}
	if (new && has_handler(&a))
		a.sa_flags |= SA_ONSTACK;
	return real_sigaction(sig, new ? &a : NULL, old);
}

static sighandler_t set(int sig, sighandler_t handler, int flags)
{
	struct sigaction a = {.sa_handler = handler, .sa_flags = flags}, old;
	if (!(flags & SA_NODEFER))
		sigaddset(&a.sa_mask, sig);
	return handler == SIG_ERR || sigaction(sig, &a, &old) ? SIG_ERR : old.sa_handler;
}

/* glibc's signal does not call sigaction where others can see it. */
sighandler_t signal(int sig, sighandler_t handler)
{
	if (!real_signal)
		find_real();
	return active ? set(sig, handler, SA_RESTART) : real_signal(sig, handler);
}

/* Programs that ask for strict C or POSIX call it for signal. */
sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	if (!real_sysv_signal)
		find_real();
	return active ? set(sig, handler, SA_RESETHAND | SA_NODEFER) : real_sysv_signal(sig, handler);
}

/* Other names, which the headers may not declare. */
sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t bsd_signal(int sig, sighandler_t handler) { return signal(sig, handler); }
sighandler_t ssignal(int sig, sighandler_t handler) { return signal(sig, handler); }
sighandler_t sysv_signal(int sig, sighandler_t handler) { return __sysv_signal(sig, handler); }

/* System V: SIG_HOLD blocks the signal, all else unblocks it. The result is SIG_HOLD if it was blocked. */
sighandler_t sigset(int sig, sighandler_t handler)
{
	if (!real_sigset)
		find_real();
	if (!active)
		return real_sigset(sig, handler);
	struct sigaction a = {.sa_handler = handler}, old;
	sigset_t its, before;
	bool hold = handler == SIG_HOLD;
	sigemptyset(&its);
	if (handler == SIG_ERR || sigaddset(&its, sig) || sigaction(sig, hold ? NULL : &a, &old) ||
	    sigprocmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &its, &before))
		return SIG_ERR;
	return sigismember(&before, sig) ? SIG_HOLD : old.sa_handler;
}

int sigignore(int sig) { return sigaction(sig, &(struct sigaction){.sa_handler = SIG_IGN}, NULL); }
