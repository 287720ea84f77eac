/*
 * Explanations of calls that the shim refuses by itself (rawverbs run --explain). The core explains
 * the others.
 */
#include "shim.h"

#include <stdio.h>

int in_use(const char *call, const char *object, unsigned users)
{
	if (getenv("RAWVERBS_EXPLAIN"))
		fprintf(stderr, "rawverbs: %s: the %s is used by %u other object%s: EBUSY (16, device or resource busy); try: destroy those first\n",
			call, object, users, users == 1 ? "" : "s");
	return failed(EBUSY);
}
