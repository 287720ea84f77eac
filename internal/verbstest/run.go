// Running the table on a device, and judging each case by the device's quirks.

package verbstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Run runs every case on a device as a subtest of its own. quirks has the cases
// that this device is known to fail, by ID, with the reasons. How many cases had
// which result is logged at the end; see Results for the whole table.
func Run(t *testing.T, device string, quirks map[string]string) {
	RunCases(t, device, Cases(), quirks)
}

// RunCases is Run for a table of the caller's.
func RunCases(t *testing.T, device string, cases []Case, quirks map[string]string) {
	for _, fault := range tableFaults(cases, quirks) {
		t.Error(fault)
	}
	results := Results{Device: device}
	for _, c := range cases {
		t.Run(c.ID(), func(t *testing.T) {
			o := c.execute(t.Context(), device)
			v := judge(o, quirks[c.ID()])
			results.Cases = append(results.Cases, Result{c.ID(), v.word, v.reason, o.took})
			if !v.right {
				t.Error(v)
			} else if v.word != passed {
				t.Log(v)
			}
		})
	}
	t.Logf("%s: %s", device, results.Count())
	if err := results.save(); err != nil {
		t.Error(err)
	}
}

// tableFaults lists cases of one name, and quirks that no case has.
func tableFaults(cases []Case, quirks map[string]string) []string {
	var faults []string
	known := make(map[string]bool)
	for _, c := range cases {
		if known[c.ID()] {
			faults = append(faults, fmt.Sprintf("there are two cases %q", c.ID()))
		}
		known[c.ID()] = true
	}
	for _, id := range slices.Sorted(maps.Keys(quirks)) {
		if !known[id] {
			faults = append(faults, fmt.Sprintf("a quirk is listed for %q, and there is no such case", id))
		}
		if quirks[id] == "" {
			faults = append(faults, fmt.Sprintf("the quirk of %q has no reason", id))
		}
	}
	return faults
}

// The words of a verdict.
const (
	passed      = "pass"
	failed      = "FAIL"
	quirky      = "quirk"
	unsupported = "unsupported"
	stale       = "FAIL: a listed case that passes"
)

// verdict is what a case's outcome means for the run.
type verdict struct {
	right    bool // as it should be: passed, or failed as listed
	word     string
	reason   string // the quirk's
	findings []string
}

func judge(o outcome, quirk string) verdict {
	v := verdict{reason: quirk, findings: o.findings}
	switch {
	case quirk == "" && len(o.findings) == 0:
		v.right, v.word = true, passed
	case quirk == "":
		v.word = failed
	case len(o.findings) == 0:
		v.word = stale
	case o.unsupported:
		v.right, v.word = true, unsupported
	default:
		v.right, v.word = true, quirky
	}
	return v
}

// label is the verdict with the reason, without the findings.
func (v verdict) label() string {
	if v.reason == "" {
		return v.word
	}
	return v.word + " (" + v.reason + ")"
}

// String is the label, and a finding a line.
func (v verdict) String() string {
	return strings.Join(append([]string{v.label()}, v.findings...), "\n")
}
