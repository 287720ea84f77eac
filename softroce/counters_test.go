package softroce_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCountersAreDocumented: the table of docs/counters.md has each counter of the device, and no other.
func TestCountersAreDocumented(t *testing.T) {
	counters, err := openSoft(t, "soft0").QueryCounters(1)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/counters.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(cells[1], -1) {
				documented[name[1]] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		if !documented[name] {
			t.Errorf("%s has no row", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("the device has no counter %s", name)
	}
}
