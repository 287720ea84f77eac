package transport

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestLimits: an engine that has as many objects of a kind as the device's attributes say refuses the next one, and takes
// it after one was closed. The objects that fill it exist only as numbers.
func TestLimits(t *testing.T) {
	node := newSimnet(t, 1).node("10.0.0.1")
	e, pd := node.engine, node.domain()
	cq, err := e.CreateCQ(CQInit{Depth: 1})
	if err != nil {
		t.Fatal(err)
	}
	e.openPDs.n.Store(MaxPD - 1)
	e.openCQs.n.Store(MaxCQ - 1)
	e.openSRQs.n.Store(MaxSRQ - 1)
	e.openAHs.n.Store(MaxAH - 1)
	for i := range uint32(MaxQP - 1) {
		e.qps[1<<24+i] = nil
	}
	e.keys.regions, e.keys.windows = make(map[uint32]*MR, MaxMR+MaxMW), MaxMW-1
	for i := range uint32(MaxMR + MaxMW - 2) {
		e.keys.regions[1<<24+i] = new(MR)
	}
	path := verbs.AHAttr{IsGlobal: true, PortNum: portNum, GRH: verbs.GRH{DGID: verbs.GIDFrom(netip.MustParseAddr("10.0.0.1"))}}
	for _, kind := range []struct {
		name string
		make func() (interface{ Close() error }, error)
	}{
		{"PD", func() (interface{ Close() error }, error) { return e.AllocPD() }},
		{"CQ", func() (interface{ Close() error }, error) { return e.CreateCQ(CQInit{Depth: 1}) }},
		{"SRQ", func() (interface{ Close() error }, error) { return pd.CreateSRQ(1, 1) }},
		{"AH", func() (interface{ Close() error }, error) { return pd.CreateAH(path) }},
		{"QP", func() (interface{ Close() error }, error) {
			return pd.CreateQP(QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
		}},
		{"MR", func() (interface{ Close() error }, error) { return pd.RegisterMR(make([]byte, 8), 0) }},
		{"null MR", func() (interface{ Close() error }, error) { return pd.NullMR() }},
		{"MW", func() (interface{ Close() error }, error) { return pd.AllocMW(verbs.MWType2) }},
	} {
		for range 2 {
			last, err := kind.make()
			if err != nil {
				t.Fatalf("the last %s: %v", kind.name, err)
			}
			if _, err := kind.make(); !errors.Is(err, syscall.ENOMEM) {
				t.Errorf("a %s above the limit: %v, want ENOMEM", kind.name, err)
			}
			if err := last.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
