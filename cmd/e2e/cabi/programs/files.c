/*
 * Looks at the device's files in every way that libc has: files DEVICE. It prints what fails, and
 * exits with 1.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int failures;
#define CHECK(condition)                                                                           \
	do {                                                                                       \
		errno = 0;                                                                         \
		if (!(condition)) {                                                                \
			printf("line %d: %s: %s\n", __LINE__, #condition, strerror(errno));        \
			failures++;                                                                \
		}                                                                                  \
	} while (0)
/* FAILS checks that a call fails as it does without a preloaded library. */
#define FAILS(call, error) CHECK((call) < 0 && errno == error)

static const char zero[] = "0000:0000:0000:0000:0000:0000:0000:0000\n"; /* no address */
static char folder[256], file[512], gid[512];

static int reads(int fd, const char *text)
{
	char buffer[256];
	ssize_t n = read(fd, buffer, sizeof buffer - 1);
	close(fd);
	return n >= 0 && (buffer[n] = 0, !strcmp(buffer, text));
}

static int lists(DIR *dir, const char *name)
{
	int found = 0;
	for (struct dirent *e; dir && (e = readdir(dir));)
		found += !strcmp(e->d_name, name);
	if (dir)
		closedir(dir);
	return found;
}

/* Old programs call them. */
int __xstat(int version, const char *path, struct stat *s);
int __lxstat(int version, const char *path, struct stat *s);

static void closed(const char *device)
{
	struct stat s;
	struct statx x;
	char to[PATH_MAX], *real;
	struct dirent **names;

	CHECK(reads(open(file, O_RDONLY), "1: CA\n"));
	CHECK(reads(open(file, O_RDONLY | O_CLOEXEC), "1: CA\n"));
	CHECK(reads(openat(AT_FDCWD, file, O_RDONLY), "1: CA\n"));
	int dir = open(folder, O_RDONLY | O_DIRECTORY);
	CHECK(dir >= 0);
	CHECK(reads(openat(dir, "node_type", O_RDONLY), "1: CA\n"));
	FILE *f = fopen(file, "r");
	CHECK(f && fgets(to, sizeof to, f) && !strcmp(to, "1: CA\n"));
	CHECK(stat(file, &s) == 0 && S_ISREG(s.st_mode));
	CHECK(lstat(folder, &s) == 0 && S_ISLNK(s.st_mode));
	CHECK(fstatat(AT_FDCWD, folder, &s, 0) == 0 && S_ISDIR(s.st_mode));
	CHECK(statx(AT_FDCWD, file, 0, STATX_TYPE, &x) == 0 && S_ISREG(x.stx_mode));
	CHECK(__xstat(1, file, &s) == 0 && S_ISREG(s.st_mode));
	CHECK(__lxstat(1, folder, &s) == 0 && S_ISLNK(s.st_mode));
	CHECK(access(file, R_OK) == 0);
	CHECK(faccessat(AT_FDCWD, file, F_OK, 0) == 0);
	CHECK(readlink(folder, to, sizeof to) > 0 && !strncmp(to, "../../devices/virtual/infiniband/", 33));
	CHECK(realpath(file, to) && !strncmp(to, "/sys/devices/virtual/infiniband/", 32) && access(to, R_OK) == 0);
	CHECK((real = realpath(folder, NULL)) && !strncmp(real, "/sys/devices/", 13));
	CHECK(lists(opendir("/sys/class/infiniband"), device) == 1);
	CHECK(lists(opendir("/sys/class//infiniband/"), device) == 1);
	CHECK(lists(fdopendir(dir), "ports") == 1);
	CHECK(scandir("/sys/class/infiniband_verbs", &names, NULL, alphasort) >= 4);
	CHECK(stat("/dev/infiniband/uverbs4791", &s) == 0 && S_ISCHR(s.st_mode));
	CHECK(access("/dev/infiniband/uverbs4791", R_OK | W_OK) == 0);
	CHECK(reads(open("/sys/class/infiniband_verbs/uverbs4791/abi_version", O_RDONLY), "1\n"));

	FAILS(open("/sys/class/infiniband/other/node_type", O_RDONLY), ENOENT);
	FAILS(stat("/sys/class/infinibandx", &s), ENOENT);
	FAILS(open(strcat(strcpy(to, file), "/x"), O_RDONLY), ENOTDIR);
	FAILS(access(strcat(strcpy(to, folder), "/x"), F_OK), ENOENT);
	FAILS(readlink(file, to, sizeof to), EINVAL);
	CHECK(!opendir(file) && errno == ENOTDIR);
	CHECK(!fopen("/sys/class/infiniband/other", "r") && errno == ENOENT);
	const char *volatile none = NULL;
	FAILS(access(none, F_OK), EFAULT);
	int made = open("/tmp", O_RDWR | O_TMPFILE, 0640);
	CHECK(made >= 0 && fstat(made, &s) == 0 && (s.st_mode & 0777) == 0640);
}

/*
 * The device's parent, by the steps of NCCL 2.28 (ncclIbGetPciPath, ncclTopoGetSubsystem) and of meta-pytorch/torchcomms
 * (uniflow, prims). It is not a PCI device.
 */
static void parent(const char *device)
{
	char path[PATH_MAX], real[PATH_MAX], to[PATH_MAX];
	struct stat s;

	CHECK(realpath(folder, real) && strstr(real, "/devices/virtual/"));
	snprintf(path, sizeof path, "%s/device", folder);
	CHECK(realpath(path, real) && !strncmp(real, "/sys/devices/virtual/", 21));
	ssize_t n = readlink(path, to, sizeof to - 1);
	CHECK(n > 0 && (to[n] = 0, !strcmp(strrchr(to, '/') + 1, device)));
	CHECK(stat(real, &s) == 0 && S_ISDIR(s.st_mode));
	CHECK(!realpath(strcat(real, "/subsystem"), to) && errno == ENOENT);
	snprintf(path, sizeof path, "%s/device/net", folder);
	FAILS(access(path, F_OK), ENOENT); /* of loopback */
	snprintf(path, sizeof path, "%s/device/numa_node", folder);
	CHECK(reads(open(path, O_RDONLY), "-1\n"));
}

/* The GID files of an open device have its addresses. */
static void opened(struct ibv_context *context)
{
	char text[64] = "", buffer[64];
	union ibv_gid g;
	CHECK(!ibv_query_gid(context, 1, 1, &g));
	for (int i = 0; i < 16; i += 2)
		sprintf(text + strlen(text), "%02x%02x%c", g.raw[i], g.raw[i + 1], i < 14 ? ':' : '\n');
	CHECK(reads(open(gid, O_RDONLY), text));
	FILE *f = fopen(gid, "r");
	CHECK(f && fgets(buffer, sizeof buffer, f) && !strcmp(buffer, text));
	snprintf(file, sizeof file, "%s/ports/1/gid_attrs/types/1", folder);
	CHECK(reads(open(file, O_RDONLY), "RoCE v2\n"));
	snprintf(file, sizeof file, "%s/ports/1/gid_attrs/ndevs/1", folder);
	CHECK(reads(open(file, O_RDONLY), "lo\n"));
	snprintf(file, sizeof file, "%s/ports/1/gids/9", folder);
	CHECK(reads(open(file, O_RDONLY), zero));
	/* As sysfs, which refuses to read the type of an empty slot. */
	snprintf(file, sizeof file, "%s/ports/1/gid_attrs/types/9", folder);
	int fd = open(file, O_RDONLY);
	FAILS(read(fd, buffer, sizeof buffer), EINVAL);
}

int main(int argc, char **argv)
{
	const char *device = argc > 1 ? argv[1] : "";
	snprintf(folder, sizeof folder, "/sys/class/infiniband/%s", device);
	snprintf(file, sizeof file, "%s/node_type", folder);
	snprintf(gid, sizeof gid, "%s/ports/1/gids/1", folder);
	closed(device);
	parent(device);
	CHECK(reads(open(gid, O_RDONLY), zero));

	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;
	for (int i = 0; devices && devices[i]; i++)
		if (!strcmp(ibv_get_device_name(devices[i]), device)) {
			struct stat s;
			CHECK(stat(devices[i]->ibdev_path, &s) == 0 && stat(devices[i]->dev_path, &s) == 0);
			context = ibv_open_device(devices[i]);
		}
	CHECK(context);
	if (context) {
		opened(context);
		ibv_close_device(context);
	}
	CHECK(reads(open(gid, O_RDONLY), zero));
	return failures > 0;
}
