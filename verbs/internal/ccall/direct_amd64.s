//go:build linux && cgo && amd64 && !race && !msan && !asan && !cgocalls

#include "textflag.h"

// func callOn(stack uintptr, fn unsafe.Pointer, a, b, c, d uintptr, p unsafe.Pointer) int64
//
// C keeps BX, BP and R12 to R15 as they are (System V ABI for AMD64), among them what the
// runtime has in R14. A signal finds this goroutine in C as it finds one in the kernel's
// vDSO: its handler has a stack of its own, and since neither C's code nor this function
// has a place to stop at for Go's preemption, it returns and leaves it at that.
TEXT ·callOn(SB), NOSPLIT, $0-64
	MOVQ stack+0(FP), R10
	MOVQ fn+8(FP), AX
	MOVQ a+16(FP), DI
	MOVQ b+24(FP), SI
	MOVQ c+32(FP), DX
	MOVQ d+40(FP), CX
	MOVQ p+48(FP), R8
	MOVQ SP, BX
	MOVQ R10, SP // aligned to 16 bytes, as C wants it
	CALL AX
	MOVQ BX, SP
	MOVQ AX, ret+56(FP)
	RET
