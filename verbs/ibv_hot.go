//go:build linux && cgo && !nolibibverbs

// The C wall: the functions that posting, polling and waiting call.

package verbs

// #include "ibv_hot.h"
import "C"

import (
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

var (
	hotPostSend    = C.rv_hot_post_send
	hotBuildSend   = C.rv_hot_build_send
	hotPostRecv    = C.rv_hot_post_recv
	hotPostSRQRecv = C.rv_hot_post_srq_recv
	hotPoll        = C.rv_hot_poll_cq
	hotPollEx      = C.rv_hot_poll_cq_ex
	hotArm         = C.rv_hot_req_notify_cq
	hotGetEvents   = C.rv_hot_get_cq_events
)

// address returns a pointer into C memory as an argument for these functions.
func address[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// boolArg returns a bool as an argument for these functions.
func boolArg(b bool) uintptr {
	if b {
		return 1
	}
	return 0
}

// calls describes how the functions above are called, for the log record of Open.
func (*ibvDevice) calls() string {
	if ccall.Direct {
		return "calls past Go's scheduler"
	}
	return "calls through cgo"
}
