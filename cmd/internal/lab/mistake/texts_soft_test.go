//go:build !rdma

package mistake

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWebTexts compares two files of the laboratory with the mistakes here: the English texts, and what
// its tests expect each end to see. After a change: go test ./cmd/internal/lab/mistake -run TestWebTexts -update,
// and then the translations beside the texts.
func TestWebTexts(t *testing.T) {
	for name, fresh := range map[string]string{"src/texts/en/mistakes.ts": webTexts(t), "test/mistakes.json": webPromises(t)} {
		path := filepath.Join("..", "..", "..", "..", "web", filepath.FromSlash(name))
		old, err := os.ReadFile(path)
		switch {
		case err != nil && !*update:
			t.Fatal(err)
		case fresh == string(old):
		case !*update:
			t.Errorf("%s is out of date (run with -update): %s", path, difference(string(old), fresh))
		default:
			if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// webTexts is the TypeScript file with the texts of all mistakes.
func webTexts(t *testing.T) string {
	var b strings.Builder
	b.WriteString("// The texts of the mistakes, from cmd/internal/lab/mistake: go test ./cmd/internal/lab/mistake -run TestWebTexts -update\n" +
		"// writes this file.\nexport const mistakes = {\n")
	line := func(key, text string) { fmt.Fprintf(&b, "  %s: %s,\n", encoded(t, key), encoded(t, text)) }
	for i, g := range Groups() {
		line(fmt.Sprintf("mistakes.group.%d", i+1), g.Title)
		for _, m := range g.Mistakes {
			for _, x := range [][2]string{{"title", m.Title}, {"setting", m.Setting}, {"question", m.Question}, {"why", m.Why}, {"remedy", m.Remedy}} {
				line("mistake."+m.Name+"."+x[0], x[1])
			}
		}
	}
	b.WriteString("} as const;\n\n/** The names of the mistakes, by group. */\nexport const groups: readonly (readonly string[])[] = [\n")
	for _, g := range Groups() {
		var names []string
		for _, m := range g.Mistakes {
			names = append(names, m.Name)
		}
		fmt.Fprintf(&b, "  %s,\n", encoded(t, names))
	}
	b.WriteString("];\n")
	return b.String()
}

// webPromises is the JSON file with what each end reports: errnos and statuses in order, and the
// state of its queue pair.
func webPromises(t *testing.T) string {
	type end struct {
		Saw   []string `json:"saw"`
		State string   `json:"state"`
	}
	of := func(r reported) end {
		e := end{Saw: []string{}, State: r.State.Name()}
		for _, text := range words(r.Saw) {
			name, _, _ := strings.Cut(text, " ")
			e.Saw = append(e.Saw, strings.TrimPrefix(name, "IBV_WC_"))
		}
		return e
	}
	var lines []string
	for _, m := range all() {
		lines = append(lines, fmt.Sprintf("  %s: %s", encoded(t, m.Name),
			encoded(t, map[string]end{"client": of(m.Expect.Client), "server": of(m.Expect.Server)})))
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n}\n"
}

// encoded is a value in JSON, with the characters of HTML as they are.
func encoded(t *testing.T, v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
