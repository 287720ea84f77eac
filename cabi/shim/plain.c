/*
 * Functions that concern no device: words, rates, files. A program that loads libibverbs with
 * dlopen looks for them in this library. The real library answers, if there is one.
 */
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* No installed header declares them. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *to, size_t size);
void ibv_copy_ah_attr_from_kern(void *to, void *from);
void ibv_copy_qp_attr_from_kern(void *to, void *from);
void ibv_copy_path_rec_from_kern(void *to, void *from);
void ibv_copy_path_rec_to_kern(void *to, void *from);

/* FORWARD calls the real function, or gives the last argument. */
#define FORWARD(name, arguments, otherwise)                                   \
	({                                                                    \
		__typeof__(&name) real = real_symbol(#name, false);           \
		real ? real arguments : (otherwise);                          \
	})

const char *ibv_node_type_str(enum ibv_node_type type) { return FORWARD(ibv_node_type_str, (type), "unknown"); }
const char *ibv_port_state_str(enum ibv_port_state state) { return FORWARD(ibv_port_state_str, (state), "unknown"); }
const char *ibv_event_type_str(enum ibv_event_type type) { return FORWARD(ibv_event_type_str, (type), "unknown"); }
const char *ibv_wc_status_str(enum ibv_wc_status status) { return FORWARD(ibv_wc_status_str, (status), "unknown"); }

int ibv_rate_to_mult(enum ibv_rate rate) { return FORWARD(ibv_rate_to_mult, (rate), -1); }
int ibv_rate_to_mbps(enum ibv_rate rate) { return FORWARD(ibv_rate_to_mbps, (rate), -1); }
enum ibv_rate mult_to_ibv_rate(int mult) { return FORWARD(mult_to_ibv_rate, (mult), IBV_RATE_MAX); }
enum ibv_rate mbps_to_ibv_rate(int mbps) { return FORWARD(mbps_to_ibv_rate, (mbps), IBV_RATE_MAX); }

/* The memory of the software device is this process's: nothing is to be done on fork. */
int ibv_dontfork_range(void *base, size_t size) { return FORWARD(ibv_dontfork_range, (base, size), 0); }
int ibv_dofork_range(void *base, size_t size) { return FORWARD(ibv_dofork_range, (base, size), 0); }

const char *ibv_get_sysfs_path(void) { return FORWARD(ibv_get_sysfs_path, (), "/sys"); }

int ibv_read_sysfs_file(const char *dir, const char *file, char *to, size_t size)
{
	char path[512];
	if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) >= sizeof path)
		return -1;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, to, size);
	close(fd);
	if (n > 0 && to[n - 1] == '\n')
		to[--n] = 0;
	else if (n >= 0 && (size_t)n < size)
		to[n] = 0;
	else
		return -1; /* no room for the zero byte */
	return n;
}

/* librdmacm calls them, for a real device. The structs do not matter here. */
void ibv_copy_ah_attr_from_kern(void *to, void *from) { REAL(ibv_copy_ah_attr_from_kern)(to, from); }
void ibv_copy_qp_attr_from_kern(void *to, void *from) { REAL(ibv_copy_qp_attr_from_kern)(to, from); }
void ibv_copy_path_rec_from_kern(void *to, void *from) { REAL(ibv_copy_path_rec_from_kern)(to, from); }
void ibv_copy_path_rec_to_kern(void *to, void *from) { REAL(ibv_copy_path_rec_to_kern)(to, from); }
