//go:build linux && cgo

// Completion queues. Their rings lie in C memory, where the shim polls them.

package main

// #include "../core.h"
import "C"

import (
	"syscall"
	"time"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

type cq struct {
	*context
	*verbs.CQ
	soft    sharer
	channel *channel // nil: without one
}

var cqs handles[cq]

// sharer is a CQ of the software device.
type sharer interface {
	// Share makes the CQ use a ring in C memory; see softroce.
	Share(wcs []verbs.WC, stamps []int64, head, tail *uint32, depth int, notify func()) error
	// Drive receives what has arrived at the device, and reports on its traffic.
	Drive() (stream, received, missed bool)
}

// verbs.WC and struct ibv_wc have the same layout.
var (
	_ [unsafe.Sizeof(verbs.WC{}) - C.sizeof_struct_ibv_wc]byte
	_ [C.sizeof_struct_ibv_wc - unsafe.Sizeof(verbs.WC{})]byte
)

//export rv_create_cq
func rv_create_cq(handle C.rv_handle, flags C.uint64_t, ring *C.struct_rv_ring, shared *C.struct_rv_channel, event C.uint64_t, out *C.rv_handle) C.int {
	c := contexts.get(handle)
	v, err := c.CreateCQ(verbs.CQInit{Depth: int(ring.depth), Ex: verbs.WCExFlags(flags)})
	if err != nil {
		return errnoOf(err)
	}
	q := &cq{context: c, CQ: v, soft: verbs.ProviderOf(v).(sharer)}
	if shared != nil {
		q.channel = &channel{shared: shared, event: uint64(event)}
	}
	if err := q.share(ring); err != nil {
		_ = v.Close() // report the error of share
		return errnoOf(err)
	}
	c.events.put(verbs.ProviderOf(v), target{c, uint64(event)})
	*out = cqs.add(q)
	return 0
}

func (q *cq) share(r *C.struct_rv_ring) error {
	wcs := unsafe.Slice((*verbs.WC)(unsafe.Pointer(r.wcs)), int(r.length))
	var stamps []int64
	if r.stamps != nil {
		stamps = unsafe.Slice((*int64)(r.stamps), int(r.length))
	}
	var notify func()
	if q.channel != nil {
		notify = q.channel.notify
	}
	return q.soft.Share(wcs, stamps, (*uint32)(&r.head), (*uint32)(&r.tail), int(r.depth), notify)
}

//export rv_resize_cq
func rv_resize_cq(handle C.rv_handle, ring *C.struct_rv_ring) C.int {
	return errnoOf(cqs.get(handle).share(ring))
}

//export rv_moderate_cq
func rv_moderate_cq(handle C.rv_handle, count, periodUS C.int) C.int {
	return errnoOf(cqs.get(handle).Moderate(int(count), time.Duration(periodUS)*time.Microsecond))
}

//export rv_arm_cq
func rv_arm_cq(handle C.rv_handle, solicitedOnly C.int) C.int {
	q := cqs.get(handle)
	if q.channel == nil {
		return C.int(syscall.EINVAL)
	}
	return errnoOf(q.Arm(solicitedOnly != 0))
}

//export rv_renotify
func rv_renotify(handle C.rv_handle, more C.uint32_t) { cqs.get(handle).channel.renotify(uint32(more)) }

//export rv_drive
func rv_drive(handle C.rv_handle) C.int {
	switch stream, received, missed := cqs.get(handle).soft.Drive(); {
	case received:
		return C.RV_RECEIVED
	case stream && !missed:
		return C.RV_STREAM
	}
	return C.RV_NOTHING
}

//export rv_destroy_cq
func rv_destroy_cq(handle C.rv_handle) C.int {
	return closing(&cqs, handle, func(q *cq) error {
		if err := q.CQ.Close(); err != nil {
			return err
		}
		q.events.drop(verbs.ProviderOf(q.CQ))
		if q.channel != nil {
			q.channel.forget()
		}
		return nil
	})
}
