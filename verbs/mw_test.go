package verbs

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// bindingQP changes a window's key in two steps, as C does.
type bindingQP struct{ *paperQP }

func (q *bindingQP) BindMW(_ uint64, _ SendFlags, b *MWBind) error {
	key := &b.MW.p.(*keyedMW).key
	was := key.Load()
	runtime.Gosched()
	key.Store(IncRKey(was))
	return nil
}

type keyedMW struct{ key atomic.Uint32 }

func (m *keyedMW) RKey() uint32 { return m.key.Load() }
func (m *keyedMW) Close() error { return nil }

// TestBindsOfOneWindowHaveKeysOfTheirOwn posts the binds to different queue pairs.
func TestBindsOfOneWindowHaveKeysOfTheirOwn(t *testing.T) {
	mw, mr := &MW{p: &keyedMW{}, kind: MWType1}, &MR{p: &paperMR{}}
	var all sync.WaitGroup
	const posters, each = 4, 50
	for range posters {
		qp := &QP{p: &bindingQP{&paperQP{}}}
		all.Go(func() {
			for range each {
				if err := qp.BindMW(0, 0, MWBind{MW: mw, MR: mr}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if key := mw.RKey(); key != posters*each {
		t.Errorf("%d binds came to key %d", posters*each, key)
	}
}
