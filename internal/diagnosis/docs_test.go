package diagnosis

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the lists of docs/errors.md")

// sections has the lists in the order of the page.
var sections = []Section{Finding, Moving, Completions, Posting, Events, Wire, Exchange}

// listOf returns a list of docs/errors.md in Markdown.
func listOf(s Section) string {
	var b strings.Builder
	for _, e := range entries {
		if e.Section == s {
			fmt.Fprintf(&b, "- **%s**: %s. Try: %s.\n", escaped(e.Title()), escaped(e.Cause), escaped(e.Remedy))
		}
	}
	return b.String()
}

// escaped escapes what Markdown would take for emphasis.
func escaped(text string) string { return strings.ReplaceAll(text, "*", `\*`) }

// TestPageHasTheLists compares the lists of docs/errors.md with the entries. After a change:
// go test ./internal/diagnosis -update
func TestPageHasTheLists(t *testing.T) {
	const path = "../../docs/errors.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, s := range sections {
		before, rest, ok := strings.Cut(page, "\n## "+string(s)+"\n")
		section, after, _ := strings.Cut(rest, "\n## ")
		start := strings.Index(section, "\n- ")
		if !ok || start < 0 {
			t.Fatalf("%s has no list below the heading %q", path, s)
		}
		list := section[start+1:]
		if end := strings.Index(list, "\n\n"); end >= 0 {
			list = list[:end+1]
		}
		if !strings.HasSuffix(list, "\n") {
			list += "\n"
		}
		if list == listOf(s) {
			continue
		}
		if !*update {
			t.Errorf("the list %q differs (run with -update); it should be\n%s", s, listOf(s))
			continue
		}
		section = strings.Replace(section+"\n", list, listOf(s), 1)
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
