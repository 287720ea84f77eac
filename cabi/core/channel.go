//go:build linux && cgo

// Completion events: a channel's pipe gets a record per event.

package main

// #include "../core.h"
import "C"

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// channel is the completion channel as one of its CQs sees it.
type channel struct {
	shared *C.struct_rv_channel
	event  uint64
	mu     sync.Mutex
	missed int32 // events of this CQ that did not fit into the pipe
}

// notify reports an event. The engine's locks are held. The pipe does not block.
func (c *channel) notify() {
	if !c.write() {
		c.renotify(1)
	}
}

// write writes a record as the kernel does (struct ib_uverbs_comp_event_desc).
func (c *channel) write() bool {
	var record [8]byte
	binary.NativeEndian.PutUint64(record[:], c.event)
	_, err := unix.Write(int(c.shared.fd), record[:])
	return err == nil
}

// renotify counts more missed events first, and then writes what fits: the reader may have
// emptied the pipe before it could see the count.
func (c *channel) renotify(more uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(int32(more))
	for c.missed > 0 && c.write() {
		c.count(-1)
	}
}

func (c *channel) count(n int32) {
	c.missed += n
	atomic.AddUint32((*uint32)(&c.shared.missed), uint32(n))
}

// forget drops the missed events of a CQ that is destroyed.
func (c *channel) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count(-c.missed)
}
