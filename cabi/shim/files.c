/*
 * The files of the device. Programs look for devices below /sys/class and /dev, where only the
 * kernel can put files. `rawverbs run` makes them in a folder (RAWVERBS_FILES), and the functions
 * here lead paths of the device to that folder.
 *
 *  1. Each function that takes a path calls lead(). Other paths cost a comparison of the first
 *     bytes, and go to the next library unchanged.
 *  2. The folder also has links to the files of real devices, for listings. A path below a real
 *     device is never led.
 *  3. Addresses are known only while the device is open, so the GID files of an open device are
 *     made when they are opened.
 */
#undef _FORTIFY_SOURCE /* it makes some of these functions inline */
#include "shim.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

__thread int files_untrapped;

/* The folders that have an entry for the device: "<path>/<entry of the device>". */
static const struct {
	const char *path;
	enum { DEVICE, UVERBS } entry;
} folders[] = {
	{"/sys/class/infiniband", DEVICE},
	{"/sys/class/infiniband_verbs", UVERBS},
	{"/sys/devices/virtual/infiniband", DEVICE},
	{"/sys/devices/virtual/infiniband_verbs", UVERBS},
	{"/sys/devices/virtual/rawverbs", DEVICE}, /* the device's parent */
	{"/dev/infiniband", UVERBS},
};

/* below returns the rest of a path below a folder without its first slashes, or NULL. */
static const char *below(const char *path, const char *folder)
{
	for (; *folder; folder++) {
		if (*path++ != *folder)
			return NULL;
		if (*folder == '/')
			while (*path == '/')
				path++;
	}
	if (*path && *path != '/')
		return NULL;
	while (*path == '/')
		path++;
	return path;
}

/* is_entry reports whether the first name of a path is name. */
static bool is_entry(const char *path, const char *name)
{
	size_t n = strlen(name);
	return !strncmp(path, name, n) && (!path[n] || path[n] == '/');
}

/* path_of_device reports whether a path is one of the folders, or below the device's entry there. */
static bool path_of_device(const char *path)
{
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		const char *rest = below(path, folders[i].path);
		if (!rest)
			continue;
		const char *entry = folders[i].entry == DEVICE ? soft_device()->name : soft_device()->dev_name;
		return !*rest || is_entry(rest, entry) || is_entry(rest, "abi_version");
	}
	return false;
}

/* root returns the folder with the files, or NULL if RAWVERBS_FILES is not set. */
static const char *root(void)
{
	static const char *known = "";
	const char *folder = __atomic_load_n(&known, __ATOMIC_RELAXED);
	if (folder && !*folder) {
		const char *set = getenv("RAWVERBS_FILES");
		folder = set && *set ? set : NULL;
		__atomic_store_n(&known, folder, __ATOMIC_RELAXED);
	}
	return folder;
}

/*
 * lead returns the path to use for a path: the path itself, or a path in the folder, in out. The
 * buffer is small, because a signal handler may call stat on a small stack.
 */
enum { LED = 512 };
static const char *lead(const char *path, char out[LED])
{
	if (!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd') || (strncmp(path, "/sys/", 5) && strncmp(path, "/dev/inf", 8)))
		return path;
	if (files_untrapped || !root() || !path_of_device(path))
		return path;
	int n = snprintf(out, LED, "%s%s", root(), path);
	return n < LED ? out : path;
}

/* unlead removes the folder from the beginning of a path. */
static char *unlead(char *path)
{
	const char *rest = path && root() ? below(path, root()) : NULL;
	if (rest && *rest)
		memmove(path + 1, rest, strlen(rest) + 1);
	return path;
}

/*
 * gid_file opens a GID file of the open device. It returns false if the path is of another file. fd is -1 after
 * an error: the file of the folder would have no address.
 */
static bool gid_file(const char *led, int flags, int *fd)
{
	static const char directory[] = "/ports/1/gid";
	const char *at = strstr(led, directory);
	unsigned index;
	char kind[16] = "", text[64];
	struct ibv_gid_entry entry = {0}; /* an empty slot's GID is zero */
	if (!at || (sscanf(at += strlen(directory), "s/%u", &index) != 1 && sscanf(at, "_attrs/%15[a-z]/%u", kind, &index) != 2))
		return false;
	int error = soft_gid(index, &entry);
	if (error && error != ENODATA)
		return false; /* not open, or no such index */
	int cloexec = flags & O_CLOEXEC;
	if (error && *kind) {
		*fd = epoll_create1(cloexec); /* reading it gives EINVAL, as reading the file of an empty slot */
		return true;
	}
	if (!*kind) {
		int length = 0;
		for (int i = 0; i < 16; i += 2)
			length += sprintf(text + length, "%02x%02x%c", entry.gid.raw[i], entry.gid.raw[i + 1], i < 14 ? ':' : '\n');
	} else if (!strcmp(kind, "types")) {
		strcpy(text, "RoCE v2\n");
	} else if (strcmp(kind, "ndevs") || !if_indextoname(entry.ndev_ifindex, text)) {
		return false;
	} else {
		strcat(text, "\n");
	}
	*fd = memfd_create("rawverbs", cloexec ? MFD_CLOEXEC : 0);
	if (*fd >= 0 && pwrite(*fd, text, strlen(text), 0) < 0) {
		close(*fd);
		*fd = -1;
	}
	return true;
}

/* NEXT is the function of the next library, that is libc. */
#define NEXT(name)                                                                        \
	({                                                                                \
		if (!next.name)                                                           \
			next.name = (__typeof__(next.name))dlsym(RTLD_NEXT, #name);       \
		next.name;                                                                \
	})
#define TRAP __attribute__((visibility("default")))

/* Functions that headers do not declare: what fortified and old programs call. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *s);
int __xstat64(int version, const char *path, struct stat64 *s);
int __lxstat(int version, const char *path, struct stat *s);
int __lxstat64(int version, const char *path, struct stat64 *s);
int __fxstatat(int version, int dir, const char *path, struct stat *s, int flags);
int __fxstatat64(int version, int dir, const char *path, struct stat64 *s, int flags);
ssize_t __readlink_chk(const char *path, char *to, size_t n, size_t size);
ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t n, size_t size);
char *__realpath_chk(const char *path, char *to, size_t size);

#define FUNCTIONS(X)                                                                                                 \
	X(open) X(open64) X(__open_2) X(__open64_2) X(openat) X(openat64) X(__openat_2) X(__openat64_2)              \
	X(fopen) X(fopen64) X(stat) X(stat64) X(lstat) X(lstat64) X(fstatat) X(fstatat64) X(statx)                   \
	X(__xstat) X(__xstat64) X(__lxstat) X(__lxstat64) X(__fxstatat) X(__fxstatat64)                              \
	X(access) X(faccessat) X(eaccess) X(euidaccess) X(chdir) X(opendir) X(scandir) X(scandir64)                  \
	X(readlink) X(readlinkat) X(__readlink_chk) X(__readlinkat_chk)                                              \
	X(getxattr) X(lgetxattr) X(listxattr) X(llistxattr)                                                          \
	X(realpath) X(__realpath_chk) X(canonicalize_file_name)

static struct {
#define POINTER(name) __typeof__(&name) name;
	FUNCTIONS(POINTER)
} next;

/* A signal handler may call some of them, but not dlsym. So they are looked up before main. */
__attribute__((constructor)) static void files_init(void)
{
#define LOOK_UP(name) (void)NEXT(name);
	FUNCTIONS(LOOK_UP)
}

/* PATH defines a function that leads its parameter path. call is how it calls the next function. */
#define PATH(type, name, parameters, call)           \
	TRAP type name parameters                    \
	{                                            \
		char out[LED];                       \
		const char *led = lead(path, out);   \
		return NEXT(name) call;              \
	}

PATH(int, stat, (const char *path, struct stat *s), (led, s))
PATH(int, stat64, (const char *path, struct stat64 *s), (led, s))
PATH(int, lstat, (const char *path, struct stat *s), (led, s))
PATH(int, lstat64, (const char *path, struct stat64 *s), (led, s))
PATH(int, fstatat, (int dir, const char *path, struct stat *s, int flags), (dir, led, s, flags))
PATH(int, fstatat64, (int dir, const char *path, struct stat64 *s, int flags), (dir, led, s, flags))
PATH(int, statx, (int dir, const char *path, int flags, unsigned mask, struct statx *s), (dir, led, flags, mask, s))
PATH(int, __xstat, (int version, const char *path, struct stat *s), (version, led, s))
PATH(int, __xstat64, (int version, const char *path, struct stat64 *s), (version, led, s))
PATH(int, __lxstat, (int version, const char *path, struct stat *s), (version, led, s))
PATH(int, __lxstat64, (int version, const char *path, struct stat64 *s), (version, led, s))
PATH(int, __fxstatat, (int version, int dir, const char *path, struct stat *s, int flags), (version, dir, led, s, flags))
PATH(int, __fxstatat64, (int version, int dir, const char *path, struct stat64 *s, int flags), (version, dir, led, s, flags))
PATH(int, access, (const char *path, int mode), (led, mode))
PATH(int, eaccess, (const char *path, int mode), (led, mode))
PATH(int, euidaccess, (const char *path, int mode), (led, mode))
PATH(int, faccessat, (int dir, const char *path, int mode, int flags), (dir, led, mode, flags))
PATH(int, chdir, (const char *path), (led))
PATH(ssize_t, readlink, (const char *path, char *to, size_t n), (led, to, n))
PATH(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t n), (dir, led, to, n))
PATH(ssize_t, __readlink_chk, (const char *path, char *to, size_t n, size_t size), (led, to, n, size))
PATH(ssize_t, __readlinkat_chk, (int dir, const char *path, char *to, size_t n, size_t size), (dir, led, to, n, size))
PATH(ssize_t, getxattr, (const char *path, const char *name, void *to, size_t n), (led, name, to, n))
PATH(ssize_t, lgetxattr, (const char *path, const char *name, void *to, size_t n), (led, name, to, n))
PATH(ssize_t, listxattr, (const char *path, char *to, size_t n), (led, to, n))
PATH(ssize_t, llistxattr, (const char *path, char *to, size_t n), (led, to, n))
PATH(DIR *, opendir, (const char *path), (led))

typedef int filter(const struct dirent *), order(const struct dirent **, const struct dirent **);
typedef int filter64(const struct dirent64 *), order64(const struct dirent64 **, const struct dirent64 **);
PATH(int, scandir, (const char *path, struct dirent ***list, filter *f, order *o), (led, list, f, o))
PATH(int, scandir64, (const char *path, struct dirent64 ***list, filter64 *f, order64 *o), (led, list, f, o))

/* OPEN also makes GID files. */
#define OPEN(name, parameters, call)                                 \
	TRAP int name parameters                                     \
	{                                                            \
		char out[LED];                                       \
		const char *led = lead(path, out);                   \
		int fd;                                              \
		bool made = led == out && gid_file(led, flags, &fd); \
		return made ? fd : NEXT(name) call;                  \
	}
/* MODE is the argument after flags, which only calls that may create a file have. */
#define MODE                                                                          \
	({                                                                            \
		mode_t mode = 0;                                                      \
		if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {            \
			va_list more;                                                 \
			va_start(more, flags);                                        \
			mode = va_arg(more, mode_t);                                  \
			va_end(more);                                                 \
		}                                                                     \
		mode;                                                                 \
	})

OPEN(open, (const char *path, int flags, ...), (led, flags, MODE))
OPEN(open64, (const char *path, int flags, ...), (led, flags, MODE))
OPEN(openat, (int dir, const char *path, int flags, ...), (dir, led, flags, MODE))
OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, led, flags, MODE))
OPEN(__open_2, (const char *path, int flags), (led, flags))
OPEN(__open64_2, (const char *path, int flags), (led, flags))
OPEN(__openat_2, (int dir, const char *path, int flags), (dir, led, flags))
OPEN(__openat64_2, (int dir, const char *path, int flags), (dir, led, flags))

#define FOPEN(name)                                                          \
	TRAP FILE *name(const char *path, const char *how)                   \
	{                                                                    \
		char out[LED];                                               \
		const char *led = lead(path, out);                           \
		int fd;                                                      \
		if (led == out && gid_file(led, 0, &fd))                     \
			return fd >= 0 ? fdopen(fd, how) : NULL;             \
		return NEXT(name)(led, how);                                 \
	}
FOPEN(fopen)
FOPEN(fopen64)

/* REALPATH gives a path of the device without the folder. */
#define REALPATH(name, parameters, call)                             \
	TRAP char *name parameters                                   \
	{                                                            \
		char out[LED];                                       \
		const char *led = lead(path, out);                   \
		char *real = NEXT(name) call;                        \
		return led == out ? unlead(real) : real;             \
	}
REALPATH(realpath, (const char *path, char *to), (led, to))
REALPATH(__realpath_chk, (const char *path, char *to, size_t size), (led, to, size))
REALPATH(canonicalize_file_name, (const char *path), (led))
