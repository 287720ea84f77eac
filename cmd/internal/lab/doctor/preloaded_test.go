package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPreloaded: under rawverbs run, the device to try is that of libibverbs.
func TestPreloaded(t *testing.T) {
	for name, c := range map[string]struct {
		listed, notes []string
		want          string
	}{
		"listed":      {[]string{"soft-eth0", "soft0"}, nil, "soft-eth0 works through libibverbs"},
		"without cgo": {[]string{"soft0"}, nil, "soft0 works; it needs no kernel device"},
		"slowly":      {[]string{"soft0"}, []string{"no GSO: sending with sendmmsg", "no GRO"}, "soft0 works; it needs no kernel device, and reaches this machine only (soft:INTERFACE reaches others); but no GSO: sending with sendmmsg; no GRO"},
	} {
		t.Run(name, func(t *testing.T) {
			m := without()
			m.Preloaded, m.fake.listed, m.fake.notes = "soft-eth0", c.listed, c.notes
			findings, _ := examine(t, m.Host, time.Minute)
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == "soft" })
			if i < 0 || !strings.HasPrefix(findings[i].Found, c.want) {
				t.Errorf("got %+v", findings)
			}
		})
	}
}
