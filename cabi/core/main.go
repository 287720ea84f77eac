//go:build linux && cgo

// Command core is the half of rawverbs' libibverbs that is written in Go: the software device
// behind the C functions of ../core.h. It is built with -buildmode=c-shared and -tags
// nolibibverbs. The shim (../shim) loads it when a program opens the device. ../README.md has
// the plan.
//
// Besides package verbs, this is the only package of the module whose product contains C.
package main

// #include "../core.h"
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/qpstate"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0 and soft:…
	"github.com/rawverbs/rawverbs/verbs"
)

func main() {} // c-shared needs it

// A thread of the program and the standby thread each hold one of the runtime's processors while they are outside Go. If none is
// idle, the runtime's monitor takes theirs away every 20 µs, and wakes a thread each time. So there is one more.
func init() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// explain makes failed calls print their error and its remedy (rawverbs run --explain).
var explain = os.Getenv("RAWVERBS_EXPLAIN") != ""

// errnoOf returns the errno of an error, and 0 for nil.
func errnoOf(err error) C.int {
	if err == nil {
		return 0
	}
	if explain {
		fmt.Fprintln(os.Stderr, "rawverbs:", err)
	}
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
	case errors.As(err, new(*qpstate.TransitionError)): // the kernel's answer to an illegal move
		errno = syscall.EINVAL
	default:
		errno = syscall.EIO
	}
	return C.int(errno)
}

// device is an open device. The contexts of a process that have its name share it, because one
// process has one address.
type device struct {
	name string
	*verbs.Device
	shared   *C.struct_rv_device
	contexts int
	events   events
}

var devices = struct {
	sync.Mutex
	byName map[string]*device
}{byName: make(map[string]*device)}

// context is one opening of a device.
type context struct {
	*device
	guid    uint64
	asyncFD int // a duplicate
	opens   int // handles; devices is locked
}

var contexts handles[context]

// attender is the software device, whose program's threads receive packets.
type attender interface {
	Attend(attending *int32) (packets int, err error)
	Flush()
	QueryRawClock() (ns uint64, err error)
}

//export rv_open
func rv_open(name *C.char, guid C.uint64_t, asyncFD C.int, shared **C.struct_rv_device, handle *C.rv_handle) C.int {
	devices.Lock()
	defer devices.Unlock()
	fd, err := unix.FcntlInt(uintptr(asyncFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	n := C.GoString(name)
	d := devices.byName[n]
	if d == nil {
		if d, err = open(n); err != nil {
			unix.Close(fd)
			if !explain { // errnoOf prints it otherwise
				fmt.Fprintf(os.Stderr, "rawverbs: %v\n", strings.ReplaceAll(err.Error(), "\n", " "))
			}
			return errnoOf(err)
		}
		devices.byName[n] = d
	}
	d.contexts++
	c := &context{device: d, guid: uint64(guid), asyncFD: fd, opens: 1}
	d.events.join(c)
	*shared, *handle = d.shared, contexts.add(c)
	return 0
}

func open(name string) (d *device, err error) {
	v, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	d = &device{name: name, Device: v, shared: newShared()}
	defer func() {
		if err != nil && v.Close() == nil {
			freeShared(d.shared)
		}
	}()
	soft := verbs.ProviderOf(v).(attender)
	packets, err := soft.Attend((*int32)(&d.shared.attending))
	if err != nil {
		return nil, errors.WithMessage(errors.WithMessage(err, "taking the device's sockets off Go's poller"), name)
	}
	now, err := soft.QueryRawClock()
	if err != nil {
		return nil, err
	}
	d.shared.packets_fd = C.int32_t(packets)
	d.shared.epoch_ns = C.uint64_t(uint64(time.Now().UnixNano()) - now)
	d.events.start(v)
	return d, startCapture(v)
}

// owner is a method of everything that embeds a context.
func (c *context) owner() *context { return c }

// freeObjects frees what the program has not destroyed, as the kernel does: perftest relies on it.
// Children come before their parents.
func (c *context) freeObjects() {
	for _, n := range qps.of(c) {
		q := qps.get(n)
		for _, g := range q.attached {
			_ = q.DetachMcast(g.gid, g.lid) // if it fails, so does the next call
		}
		rv_destroy_qp(n)
	}
	freeAll(c, &ahs, rv_destroy_ah)
	freeAll(c, &mws, rv_dealloc_mw)
	freeAll(c, &mrs, rv_dereg_mr)
	freeAll(c, &srqs, rv_destroy_srq)
	freeAll(c, &cqs, rv_destroy_cq)
	freeAll(c, &pds, freePD)
}

func freeAll[T any](c *context, h *handles[T], free func(C.rv_handle) C.int) {
	for _, n := range h.of(c) {
		free(n)
	}
}

//export rv_import
func rv_import(from C.rv_handle, shared **C.struct_rv_device, handle *C.rv_handle) C.int {
	devices.Lock()
	defer devices.Unlock()
	c := contexts.get(from)
	c.opens++
	*shared, *handle = c.shared, contexts.add(c)
	return 0
}

//export rv_close
func rv_close(handle C.rv_handle) C.int {
	devices.Lock()
	defer devices.Unlock()
	c := contexts.get(handle)
	contexts.remove(handle)
	if c.opens--; c.opens > 0 {
		return 0
	}
	c.freeObjects()
	c.events.leave(c)
	unix.Close(c.asyncFD)
	if c.contexts--; c.contexts > 0 {
		return 0
	}
	delete(devices.byName, c.name)
	if err := c.Close(); err != nil {
		return errnoOf(err) // the standby thread still reads shared
	}
	freeShared(c.shared)
	return 0
}

//export rv_clock
func rv_clock(handle C.rv_handle) C.uint64_t {
	now, _ := verbs.ProviderOf(contexts.get(handle).Device).(attender).QueryRawClock() // fails only after Close
	return C.uint64_t(now)
}
