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
		listed []string
		want   string
	}{
		"listed":      {[]string{"soft-eth0", "soft0"}, "soft-eth0 works through libibverbs"},
		"without cgo": {[]string{"soft0"}, "soft0 works; it needs no kernel device"},
	} {
		t.Run(name, func(t *testing.T) {
			m := without()
			m.Preloaded, m.fake.listed = "soft-eth0", c.listed
			findings, _ := examine(t, m.Host, time.Minute)
			i := slices.IndexFunc(findings, func(f Finding) bool { return f.Check == "soft" })
			if i < 0 || !strings.HasPrefix(findings[i].Found, c.want) {
				t.Errorf("got %+v", findings)
			}
		})
	}
}
