//go:build linux && cgo

// Asynchronous events: the pipes of the contexts get a record per event.

package main

// #include "../core.h"
import "C"

import (
	"encoding/binary"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/verbs"
)

// events finds the objects of asynchronous events.
type events struct {
	mu       sync.Mutex
	contexts map[*context]bool
	objects  map[any]target // by QPN, or by the provider's CQ or SRQ
}

// target is where the events of an object go.
type target struct {
	context *context
	element uint64 // the object's address in C
}

func (e *events) start(d *verbs.Device) {
	e.contexts, e.objects = make(map[*context]bool), make(map[any]target)
	d.Subscribe(e.deliver) // until the device is closed
}

func (e *events) join(c *context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.contexts[c] = true
}

func (e *events) leave(c *context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.contexts, c)
}

//export rv_hold_events
func rv_hold_events(handle C.rv_handle, hold C.int) {
	if e := &contexts.get(handle).events; hold != 0 {
		e.mu.Lock()
	} else {
		e.mu.Unlock()
	}
}

// put and drop keep the table of targets.
func (e *events) put(object any, t target) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.objects[object] = t
}

func (e *events) drop(object any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.objects, object)
}

func (e *events) deliver(event verbs.AsyncEvent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	object := verbs.ProviderOf(event)
	if event.QPN != 0 {
		object = event.QPN
	}
	if object == nil {
		for c := range e.contexts {
			report(c.asyncFD, uint64(event.Port), event.Type)
		}
	} else if t, found := e.objects[object]; found {
		report(t.context.asyncFD, t.element, event.Type)
	}
}

// report writes a record as the kernel does (struct ib_uverbs_async_event_desc).
func report(fd int, element uint64, kind verbs.EventType) {
	var record [16]byte
	binary.NativeEndian.PutUint64(record[:], element)
	binary.NativeEndian.PutUint32(record[8:], uint32(kind))
	_, _ = unix.Write(fd, record[:]) // a pipe holds 4096 events; the kernel, too, has a limit
}
