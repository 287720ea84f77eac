package qpstate

import (
	"os"
	"strings"
	"testing"
)

// TestDocsHaveTheTable keeps docs/qp-states.md in step with the table.
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
		if !strings.Contains(string(page), "```\n"+table.String()+"```\n") {
			t.Errorf("docs/qp-states.md lacks, between lines of three backquotes:\n%s", table.String())
		}
	}
}
