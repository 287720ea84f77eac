// The life of an object: counted by its parents from before it is made, closed
// once and only without children, reported if it is lost unclosed.

package verbs

import (
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// handle is embedded in every object.
type handle struct {
	kind    string // "QP": what a parent calls it
	device  string // the device's name, for errors
	parents []*handle

	mu       sync.RWMutex // held for reading while a call uses the object
	closed   bool
	children map[string]int // living, by kind
	leak     runtime.Cleanup
}

// born runs create between the parents' counting of the new object and the
// object's opening, so that no parent can be closed meanwhile. The device's name
// comes from the first parent. Its error is the verb's.
func born[P any](h *handle, kind, op, detail string, create func() (P, error), parents ...*handle) (P, error) {
	h.kind, h.device, h.parents = kind, parents[0].device, parents
	var none P
	for i, parent := range parents {
		if err := parent.adopt(kind); err != nil {
			releaseAll(parents[:i], kind)
			return none, fail(op, h.device, detail, err)
		}
	}
	p, err := create()
	if err != nil {
		releaseAll(parents, kind)
		return none, fail(op, h.device, detail, err)
	}
	h.watchLeak()
	return p, nil
}

// watchLeak reports the object if it is collected before it is closed.
func (h *handle) watchLeak() {
	what := h.kind + " on " + h.device
	h.leak = runtime.AddCleanup(h, func(what string) {
		slog.Warn("verbs: an object was garbage collected without Close; its memory and kernel object stay until the process ends", "object", what)
	}, what)
}

// use runs f while the object cannot be closed; net.ErrClosed if it already is.
func (h *handle) use(f func() error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return net.ErrClosed
	}
	return f()
}

// close runs destroy once, if no child lives. After a failure the object is
// still open.
func (h *handle) close(op string, destroy func() error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if len(h.children) > 0 {
		err := fail(op, h.device, "", syscall.EBUSY).(*Error)
		err.Detail = "the " + h.kind + " has living children: " + h.childNames()
		err.Hint = "closing those first"
		return err
	}
	if err := destroy(); err != nil {
		if e, ok := err.(*Error); ok {
			return e // of another call than op
		}
		return fail(op, h.device, "", err)
	}
	h.closed = true
	h.leak.Stop()
	releaseAll(h.parents, h.kind)
	return nil
}

func (h *handle) adopt(kind string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return net.ErrClosed
	}
	if h.children == nil {
		h.children = make(map[string]int)
	}
	h.children[kind]++
	return nil
}

func releaseAll(parents []*handle, kind string) {
	for _, h := range parents {
		h.mu.Lock()
		if h.children[kind]--; h.children[kind] == 0 {
			delete(h.children, kind)
		}
		h.mu.Unlock()
	}
}

// childNames is "2 MR, 1 QP"; the caller holds mu.
func (h *handle) childNames() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(h.children)) {
		parts = append(parts, fmt.Sprintf("%d %s", h.children[kind], kind))
	}
	return strings.Join(parts, ", ")
}
