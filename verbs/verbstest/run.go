// Running the table on a device, and judging each case with the device's quirks.

package verbstest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// Run runs every case on a device as a subtest. quirks has the IDs of the cases that this
// device is known to fail, with the reasons. At the end Run logs the number of cases per
// verdict; see Results for the whole table.
func Run(t *testing.T, device string, quirks map[string]string) {
	RunCases(t, device, Cases(), quirks)
}

// RunCases is like Run, for another table.
func RunCases(t *testing.T, device string, cases []Case, quirks map[string]string) {
	runCases(t, device, cases, quirks, func(t *testing.T, c Case, patience time.Duration) outcome {
		return c.execute(t.Context(), device, patience, false)
	})
}

// runCases executes every case and judges it.
func runCases(t *testing.T, device string, cases []Case, quirks map[string]string, execute func(*testing.T, Case, time.Duration) outcome) {
	for _, fault := range tableFaults(cases, quirks) {
		t.Error(fault)
	}
	results := Results{Device: device}
	for _, c := range cases {
		t.Run(c.ID(), func(t *testing.T) {
			patience := testkit.Limit
			if quirks[c.ID()] != "" {
				patience = quirkPatience
			}
			o := execute(t, c, patience)
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

// tableFaults returns the faults of the table: two cases of one name, and quirks without a
// case.
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
			faults = append(faults, fmt.Sprintf("a quirk is listed for %q, but there is no such case", id))
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
	stale       = "FAIL: listed as a quirk, but passes"
)

// verdict is the judgment of a case's outcome.
type verdict struct {
	right    bool // as expected: passed, or failed as listed
	word     string
	reason   string // the reason of the quirk
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

// label returns the verdict with its reason, without the findings.
func (v verdict) label() string {
	if v.reason == "" {
		return v.word
	}
	return v.word + " (" + v.reason + ")"
}

// String returns the label and the findings, one per line.
func (v verdict) String() string {
	return strings.Join(append([]string{v.label()}, v.findings...), "\n")
}
