// The handle that every object embeds. Parents count their children and cannot close while they
// have any. A handle closes once, reports an object that was collected without Close, and logs
// each call to the device's Logger.

package verbs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// handle is embedded in every object.
type handle struct {
	kind    string // "QP": the kind that the errors of a parent name
	device  string // the device's name, for errors
	log     *slog.Logger
	parents []*handle

	mu       sync.RWMutex // held for reading while a call uses the object
	closed   bool
	children map[string]int // open children, by kind
	calls    map[string]int // calls that may take seconds and hold no lock, by C function
	idle     chan struct{}  // closed when calls becomes empty
	leak     runtime.Cleanup
}

// makeObject counts the new object in its parents and then runs create, so that no parent
// can close meanwhile. It stores what create makes in p and returns object, which has the handle h. The first
// parent gives the device's name. If create fails or panics, the parents do not count the object. The error
// is the verb's.
func makeObject[O, P any](object *O, h *handle, p *P, kind, op, detail string, create func() (P, error), parents ...*handle) (*O, error) {
	h.kind, h.device, h.log, h.parents = kind, parents[0].device, parents[0].log, parents
	began := time.Now()
	adopted := 0
	counted := false
	defer func() {
		if !counted {
			releaseAll(parents[:adopted], kind)
		}
	}()
	for _, parent := range parents {
		if err := parent.adopt(kind); err != nil {
			return nil, fail(op, h.device, detail, err)
		}
		adopted++
	}
	made, err := create()
	h.logCall(op, detail, began, err)
	if err != nil {
		return nil, fail(op, h.device, detail, err)
	}
	*p = made
	h.watchLeak()
	counted = true
	return object, nil
}

// watchLeak reports the object if it is collected before it is closed.
func (h *handle) watchLeak() {
	lost := leak{h.kind + " on " + h.device, h.log}
	h.leak = runtime.AddCleanup(h, leak.report, lost)
}

// leak is an object that was collected and can no longer be closed.
type leak struct {
	what string
	log  *slog.Logger // nil: slog.Default
}

func (l leak) report() {
	if l.log == nil {
		l.log = slog.Default()
	}
	l.log.Warn("verbs: an object was garbage collected without Close; its memory and kernel object stay until the process ends", "object", l.what)
}

// logCall logs a call that has returned, if there is a Logger.
func (h *handle) logCall(op, detail string, began time.Time, err error) {
	if h.log == nil || !h.log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("device", h.device), slog.String("object", h.kind), slog.Duration("took", time.Since(began))}
	if detail != "" {
		attrs = append(attrs, slog.String("detail", detail))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	h.log.LogAttrs(context.Background(), slog.LevelDebug, op, attrs...)
}

// call runs f, a verb on the object, and logs it. The object cannot close while f runs.
func (h *handle) call(op, detail string, f func() error) error {
	began := time.Now()
	err := h.use(f)
	h.logCall(op, detail, began, err)
	return h.fail(op, detail, err)
}

// query is call for a verb that returns something.
func query[T any](h *handle, op, detail string, ask func() (T, error)) (answer T, err error) {
	err = h.call(op, detail, func() (err error) {
		answer, err = ask()
		return err
	})
	return answer, err
}

// fail makes the error of a verb on the object from a provider's error; nil stays nil.
func (h *handle) fail(op, detail string, err error) error {
	return fail(op, h.device, detail, h.named(err))
}

// named adds the object's kind to a provider's net.ErrClosed.
func (h *handle) named(err error) error {
	if err == net.ErrClosed {
		return closedError{h.kind}
	}
	return err
}

// use runs f and keeps the object open meanwhile. It returns net.ErrClosed if the object is closed.
func (h *handle) use(f func() error) error {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if h.closed {
		return closedError{h.kind}
	}
	return f()
}

// begin counts a call that may take seconds, so that the object stays open until the call has
// ended. It returns net.ErrClosed if the object is closed. Unlike use, begin does not block close.
func (h *handle) begin(op string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return closedError{h.kind}
	}
	if len(h.calls) == 0 {
		h.calls, h.idle = make(map[string]int), make(chan struct{})
	}
	h.calls[op]++
	return nil
}

// end ends a call that begin counted.
func (h *handle) end(op string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.calls[op]--; h.calls[op] == 0 {
		delete(h.calls, op)
	}
	if len(h.calls) == 0 {
		close(h.idle)
	}
}

// closePatience is how long Close waits for calls that begin counted. Most of them take
// microseconds.
const closePatience = 100 * time.Millisecond

// awaitCalls waits until no call is in flight, for closePatience at most.
func (h *handle) awaitCalls() {
	h.mu.RLock()
	busy, idle := len(h.calls) > 0, h.idle
	h.mu.RUnlock()
	if !busy {
		return
	}
	patience := time.NewTimer(closePatience)
	defer patience.Stop()
	select {
	case <-idle:
	case <-patience.C:
	}
}

// close runs destroy once, if the object has no children and no call is in flight. After an
// error the object is still open.
func (h *handle) close(op string, destroy func() error) error {
	h.awaitCalls()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if len(h.calls) > 0 {
		return &Error{Op: op, Device: h.device, Errno: syscall.EBUSY, Detail: "in flight on the " + h.kind + ": " + counts(h.calls),
			Hint: "calling Close again when that call has returned; the kernel may look for the peer for some seconds"}
	}
	if len(h.children) > 0 {
		return &Error{Op: op, Device: h.device, Errno: syscall.EBUSY, Detail: "the " + h.kind + " has living children: " + counts(h.children),
			Hint: "close those first"}
	}
	began := time.Now()
	err := destroy()
	h.logCall(op, "", began, err)
	if err != nil {
		if e, ok := err.(*Error); ok {
			return e // the error of another C call, such as mmap
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
		return closedError{h.kind}
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

// counts lists the kinds with their numbers: "2 MR, 1 QP".
func counts(of map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[kind], kind))
	}
	return strings.Join(parts, ", ")
}
