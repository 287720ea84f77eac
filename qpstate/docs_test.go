package qpstate

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestDocsHaveTheTable keeps docs/qp-states.md in step with the table. The page leaves out the moves to RESET and ERR,
// which take no attributes.
func TestDocsHaveTheTable(t *testing.T) {
	page, err := os.ReadFile("../docs/qp-states.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range Types() {
		shown := end.ReplaceAllString(table(typ), "")
		if !strings.Contains(string(page), "```\n"+shown+"```\n") {
			t.Errorf("docs/qp-states.md lacks, between lines of three backquotes:\n%s", shown)
		}
	}
}

var end = regexp.MustCompile(`(?m)^[A-Z]+→(RESET|ERR) +- +-\n`)

// table has one line per legal move of a type.
func table(t Type) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	dash := func(m Mask) string {
		if m == 0 {
			return "-"
		}
		return m.Name()
	}
	fmt.Fprintf(w, "%s\tREQUIRED\tOPTIONAL\n", t.Name())
	for _, move := range Transitions(t) {
		fmt.Fprintf(w, "%s\t%s\t%s\n", move.Name(), dash(move.Required), dash(move.Optional))
	}
	w.Flush()
	return b.String()
}

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
