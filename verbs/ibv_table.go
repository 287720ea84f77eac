//go:build linux && cgo && !nolibibverbs

// The C wall: finding the Go object for a C address in an event.

package verbs

import "sync"

// ibvTable maps C objects to their Go objects.
type ibvTable[C comparable, P any] struct {
	mu sync.Mutex
	of map[C]P
}

func (t *ibvTable[C, P]) put(c C, p P) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = make(map[C]P)
	}
	t.of[c] = p
}

func (t *ibvTable[C, P]) drop(c C) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, c)
}

// find returns false if the object has been destroyed since.
func (t *ibvTable[C, P]) find(c C) (P, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.of[c]
	return p, ok
}
