//go:build linux && cgo

// The C wall: the functions that posting, polling and waiting call.

package verbs

// #include "ibv_hot.h"
import "C"

import "unsafe"

var (
	hotPostSend    = unsafe.Pointer(C.rv_hot_post_send)
	hotBuildSend   = unsafe.Pointer(C.rv_hot_build_send)
	hotPostRecv    = unsafe.Pointer(C.rv_hot_post_recv)
	hotPostSRQRecv = unsafe.Pointer(C.rv_hot_post_srq_recv)
	hotPoll        = unsafe.Pointer(C.rv_hot_poll_cq)
	hotPollEx      = unsafe.Pointer(C.rv_hot_poll_cq_ex)
	hotArm         = unsafe.Pointer(C.rv_hot_req_notify_cq)
	hotGetEvents   = unsafe.Pointer(C.rv_hot_get_cq_events)
)

// address is how they are given what lies in C memory.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// truth is how they are given a bool.
func truth(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}
