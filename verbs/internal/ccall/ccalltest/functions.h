/* See functions.go. */
#include "../ccall.h"

#define FUNCTION(name) void ccalltest_##name(struct ccall_args *args)

FUNCTION(polynomial);
FUNCTION(set_errno);
FUNCTION(work);
FUNCTION(raise);
FUNCTION(fault);
FUNCTION(fault_deep);
