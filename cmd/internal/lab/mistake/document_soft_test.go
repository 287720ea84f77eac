//go:build !rdma

package mistake

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

var update = flag.Bool("update", false, "write docs/mistakes.md anew where it has changed")

const begin, closing = "<!-- begin %s, which go test ./cmd/internal/lab/mistake -update writes -->\n", "<!-- end -->\n"

// TestDocument compares docs/mistakes.md with real runs on soft0. After a change:
// go test ./cmd/internal/lab/mistake -run TestDocument -update
func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "docs", "mistakes.md")
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fresh := string(old)
	for part, text := range map[string]string{"mistakes": sections(t, string(old)), "capture": capture(t, string(old))} {
		opening := fmt.Sprintf(begin, part)
		before, rest, ok := strings.Cut(fresh, opening)
		_, after, closed := strings.Cut(rest, closing)
		if !ok || !closed {
			t.Fatalf("%s has no part %q", path, strings.TrimSpace(opening))
		}
		fresh = before + opening + text + closing + after
	}
	if fresh == string(old) {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the runs (run with -update, and look at the difference): %s", path, difference(string(old), fresh))
	}
	if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}

// difference is the first line that differs.
func difference(old, fresh string) string {
	a, b := strings.Split(old, "\n"), strings.Split(fresh, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is\n%s\nand would be\n%s", i+1, a[i], b[i])
		}
	}
	return "one is longer"
}

// shown returns what print makes of a run. On a busy host a resend can overtake an answer, so
// shown makes some more runs if the document does not have the text of the first.
func shown(t *testing.T, document string, m Mistake, print func(p *printer, r *Report)) string {
	for tries := 1; ; tries++ {
		var p printer
		print(&p, masked(run(t, m)))
		text := "```text\n" + p.String() + "```\n"
		if tries == 10 || strings.Contains(document, text) {
			return text
		}
	}
}

// sections has a section per mistake: the question, the run without its calls, the answer.
func sections(t *testing.T, document string) string {
	p := printer{columns.Page{Width: 110}}
	for _, g := range Groups() {
		p.line("\n## %s", g.Title)
		for _, m := range g.Mistakes {
			p.line("\n### %s: %s\n", m.Name, m.Title)
			p.line("%s\n", m.Setting)
			p.line("**%s**\n", m.Question)
			p.line("<details><summary>Answer</summary>\n")
			p.WriteString(shown(t, document, m, answer))
			p.line("\n%s\n", m.Why)
			p.line("Remedy: %s\n", m.Remedy)
			p.line("</details>")
		}
	}
	return p.String() + "\n"
}

// answer prints the packets, but those that the page explains above, and what was seen. Whether that was promised,
// TestMistakes checks.
func answer(p *printer, r *Report) {
	if len(r.Packets) > 0 && r.Mistake.Name != explained {
		p.line("The packets")
		p.rows(r.Packets)
		p.Line("")
	}
	p.seen(r, "; ")
}

// explained is the mistake whose packets the page explains one by one.
const explained = "lost-packet"

// capture has the packets of that mistake.
func capture(t *testing.T, document string) string {
	m, _ := Find(explained)
	return shown(t, document, m, func(p *printer, r *Report) { p.rows(r.Packets) })
}

// TestCaptureIsExplained: the list below the capture has every packet of it once, in order.
func TestCaptureIsExplained(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "mistakes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), fmt.Sprintf(begin, "capture"))
	block, after, _ := strings.Cut(rest, closing)
	list, _, _ := strings.Cut(after, "\n\nIn a capture of your own")
	var explained []int
	for _, item := range regexp.MustCompile(`(?m)^- (\d+)(?: to (\d+)|, (\d+))?: `).FindAllStringSubmatch(list, -1) {
		first, _ := strconv.Atoi(item[1])
		last, err := strconv.Atoi(item[2] + item[3])
		if err != nil {
			last = first
		}
		for n := first; n <= last; n++ {
			explained = append(explained, n)
		}
	}
	var packets []int
	for range regexp.MustCompile(`(?m)^ +\d+  \S+ → `).FindAllString(block, -1) {
		packets = append(packets, len(packets)+1)
	}
	if len(packets) == 0 || !slices.Equal(packets, explained) {
		t.Errorf("the capture has %d packets, and the list explains %v", len(packets), explained)
	}
}

var variable = regexp.MustCompile(`0x[0-9a-f]{8,}|127\.\d+\.\d+\.\d+`)

// masked removes from the steps what differs from run to run: addresses of memory and of soft0.
func masked(r *Report) *Report {
	for i := range r.Steps {
		for _, text := range []*string{&r.Steps[i].Call, &r.Steps[i].Result} {
			*text = variable.ReplaceAllStringFunc(*text, func(v string) string {
				switch {
				case strings.HasPrefix(v, "127.255."): // of nobody
					return v
				case strings.HasPrefix(v, "127."):
					return "127.a.b.c"
				}
				return "0x…"
			})
		}
	}
	return r
}
