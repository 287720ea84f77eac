/* See functions.go. */
#include <stdint.h>

#define FUNCTION(name) int64_t ccalltest_##name(uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, void *p)

FUNCTION(nothing);
FUNCTION(polynomial);
FUNCTION(misaligned);
FUNCTION(set_errno);
FUNCTION(use_stack);
FUNCTION(work);
FUNCTION(crash);
