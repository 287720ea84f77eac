package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// reportFaults writes a table with a line for each fault, step and side, over all jobs.
func reportFaults(t *testing.T, rows []*faultRow) {
	t.Helper()
	type line struct {
		runs     int
		slowest  time.Duration
		outcomes []string
	}
	lines := map[string]*line{}
	var order []string
	for _, f := range faults {
		for _, step := range faultSteps {
			for _, side := range append([]string{"both"}, bothEnds...) {
				order = append(order, fmt.Sprintf("| %s | %s | %s ", f.name, step.name, side))
			}
		}
	}
	for _, r := range rows {
		side := r.side
		if r.fault.name == cutWire {
			side = "both"
		}
		key := fmt.Sprintf("| %s | %s | %s ", r.fault.name, r.step.name, side)
		l := lines[key]
		if l == nil {
			l = &line{}
			lines[key] = l
		}
		l.runs++
		l.slowest = max(l.slowest, r.took)
		for end, problem := range r.outcomes {
			if outcome := end + " " + causeOf(problem); !slices.Contains(l.outcomes, outcome) {
				l.outcomes = append(l.outcomes, outcome)
			}
		}
	}
	var table strings.Builder
	table.WriteString("| fault | step | side | runs | slowest | the ends that survive |\n|---|---|---|---|---|---|\n")
	for _, key := range order {
		l := lines[key]
		if l == nil {
			continue
		}
		slices.Sort(l.outcomes)
		fmt.Fprintf(&table, "%s| %d | %.1f s | %s |\n", key, l.runs, l.slowest.Seconds(), strings.Join(l.outcomes, "; "))
	}
	fmt.Print(table.String())
	out := filepath.Join("..", "..", "out", "faults")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, device+".md"), []byte(table.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// causes are the causes that errors name, in the words of the table. The first that an error has counts.
var causes = []struct{ text, cause string }{
	{"and says:", "gets the other's error"},
	{"no progress", "made no progress"},
	{"IBV_WC_RETRY_EXC_ERR", "RETRY_EXC_ERR"},
	{"IBV_WC_RNR_RETRY_EXC_ERR", "RNR_RETRY_EXC_ERR"},
	{"closed the connection", "connection closed"},
	{"dropped the connection", "connection closed"},
	{"timed out", "timed out"},
	{"i/o timeout", "timed out"},
	{"did not connect its queue pairs", "timed out"},
	{"network is unreachable", "network unreachable"},
	{"is IBV_PORT_DOWN", "port down"},
	{"IBV_WC_WR_FLUSH_ERR", "WR_FLUSH_ERR"},
	{"the peer names the GID", "wrong GID"},
	{"take GIDs of one family", "wrong GID"},
	{"the file name", "wrong parameter"},
	{"protocol error", "protocol error"},
	{"parameter", "wrong parameter"},
	{"there is no job", "unknown job"},
}

// causeOf returns the cause of an error in few words.
func causeOf(problem string) string {
	if problem == "" {
		return "succeeds"
	}
	for _, c := range causes {
		if strings.Contains(problem, c.text) {
			return c.cause
		}
	}
	return "fails: " + strings.ReplaceAll(strings.TrimSpace(problem), "|", "/")
}
