/*
 * Opens all devices at once, and sends over each of them in turn: both DEVICE…, which are the names
 * that the list must have, in its order.
 */
#include "pair.h"

enum { MOST = 8, ROUNDS = 20 };

int main(int argc, char **argv)
{
	int n;
	struct end a[MOST], b[MOST];
	struct ibv_device **devices = ibv_get_device_list(&n);
	CHECK(devices && n == argc - 1 && n <= MOST);
	for (int i = 0; i < n; i++) {
		CHECK(!strcmp(ibv_get_device_name(devices[i]), argv[i + 1]));
		struct ibv_context *context = ibv_open_device(devices[i]);
		CHECK(context);
		pair_on(context, &a[i], &b[i]);
	}
	ibv_free_device_list(devices);
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < n; i++)
			exchange(&a[i], &b[i], PAGE);
	for (int i = 0; i < n; i++) {
		struct ibv_context *context = a[i].context;
		free_end(&a[i]);
		free_end(&b[i]);
		CHECK(!ibv_close_device(context));
	}
	printf("%d devices\n", n);
	return 0;
}
