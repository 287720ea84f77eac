package transport

import (
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestNoKeyLeft: an engine with all the regions that it can have refuses the next one and the next window, and does not
// look for a free key forever.
func TestNoKeyLeft(t *testing.T) {
	e := newSimnet(t, 1).node("fd00::1").engine
	pd := e.AllocPD()
	first, err := pd.NullMR()
	if err != nil {
		t.Fatal(err)
	}
	e.keys.regions = make(map[uint32]*MR, maxKeys)
	for i := range uint32(maxKeys) {
		e.keys.regions[(first.key>>keyBits+i)%(1<<24)] = first
	}
	calls := map[string]func() error{
		"RegisterMR": func() error { _, err := pd.RegisterMR(make([]byte, 8), 0); return err },
		"NullMR":     func() error { _, err := pd.NullMR(); return err },
		"AllocMW":    func() error { _, err := pd.AllocMW(verbs.MWType2); return err },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, syscall.ENOMEM) {
			t.Errorf("%s: %v, want ENOMEM", name, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := calls["RegisterMR"](); err != nil {
		t.Errorf("after a region was closed: %v", err)
	}
}
