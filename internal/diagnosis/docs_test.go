package diagnosis

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of docs/errors.md")

// sections has the tables in the order of the page.
var sections = []Section{Finding, Moving, Completions, Posting, Events, Wire, Exchange}

// tableOf returns a table of docs/errors.md in Markdown.
func tableOf(s Section) string {
	var b strings.Builder
	b.WriteString("| symptom | cause | try |\n|---|---|---|\n")
	for _, e := range entries {
		if e.Section == s {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", cell(e.Title()), cell(e.Cause), cell(e.Remedy))
		}
	}
	return b.String()
}

// cell escapes what a cell of a table must not have.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`).Replace(text)
}

// TestPageHasTheTables compares the tables of docs/errors.md with the entries. After a change:
// go test ./internal/diagnosis -update
func TestPageHasTheTables(t *testing.T) {
	const path = "../../docs/errors.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, s := range sections {
		before, rest, ok := strings.Cut(page, "\n## "+string(s)+"\n")
		section, after, _ := strings.Cut(rest, "\n## ")
		start := strings.Index(section, "\n| ")
		if !ok || start < 0 {
			t.Fatalf("%s has no table below the heading %q", path, s)
		}
		table := section[start+1:]
		if end := strings.Index(table, "\n\n"); end >= 0 {
			table = table[:end+1]
		}
		if !strings.HasSuffix(table, "\n") {
			table += "\n"
		}
		if table == tableOf(s) {
			continue
		}
		if !*update {
			t.Errorf("the table %q differs (run with -update); it should be\n%s", s, tableOf(s))
			continue
		}
		section = strings.Replace(section+"\n", table, tableOf(s), 1)
		page = before + "\n## " + string(s) + "\n" + strings.TrimSuffix(section, "\n")
		if after != "" {
			page += "\n## " + after
		}
	}
	if *update && page != string(text) {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPlain(t *testing.T) {
	if got := Plain("RoCE without [GRH](glossary.md#grh), `AH.IsGlobal`"); got != "RoCE without GRH, AH.IsGlobal" {
		t.Errorf("got %q", got)
	}
}
