package qpstate

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocsHaveTheTable keeps docs/qp-states.md in step with the table. The page leaves out the moves to RESET and ERR,
// which take no attributes.
func TestDocsHaveTheTable(t *testing.T) {
	page, err := os.ReadFile("../docs/qp-states.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range Types() {
		var table strings.Builder
		if err := Fprint(&table, typ); err != nil {
			t.Fatal(err)
		}
		shown := end.ReplaceAllString(table.String(), "")
		if !strings.Contains(string(page), "```\n"+shown+"```\n") {
			t.Errorf("docs/qp-states.md lacks, between lines of three backquotes:\n%s", shown)
		}
	}
}

var end = regexp.MustCompile(`(?m)^[A-Z]+→(RESET|ERR) +- +-\n`)

// TestDocsExplainEveryBit checks that docs/qp-states.md has a row for each mask bit that
// the three moves of a reliable connection require.
func TestDocsExplainEveryBit(t *testing.T) {
	page, err := os.ReadFile("../docs/qp-states.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, move := range []struct{ from, to State }{{Reset, Init}, {Init, RTR}, {RTR, RTS}} {
		rule, ok := Lookup(RC, move.from, move.to)
		if !ok {
			t.Fatalf("no rule for %v to %v", move.from, move.to)
		}
		for _, bit := range rule.Required.Bits() {
			if row := fmt.Sprintf("| `%s` %#x |", bit.Name(), uint32(bit)); !strings.Contains(string(page), row) {
				t.Errorf("docs/qp-states.md has no row %q", row)
			}
		}
	}
}
