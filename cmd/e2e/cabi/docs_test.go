//go:build cabi

package cabi

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the output of the commands in docs/c-on-soft.md anew where it has changed")

// listened waits for a listener at TCP port 18515, which is that of all programs of the page. The
// page waits for a second.
const listened = `until grep -q ":4853 .* 0A " /proc/net/tcp*; do sleep 0.1; done`

// TestDocument runs the commands of docs/c-on-soft.md and compares what they print. A command of a
// console block begins with "$ ". After a change: add -update to the flags of go test.
func TestDocument(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "c-on-soft.md")
	before := read(t, path)
	lines, commands := strings.Split(before, "\n"), 0
	var after []string
	folder, err := os.MkdirTemp("", "rawverbs-docs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	console := false
	for i := 0; i < len(lines); i++ {
		after = append(after, lines[i])
		console = strings.HasPrefix(lines[i], "```console") || console && lines[i] != "```"
		command, is := strings.CutPrefix(lines[i], "$ ")
		if !console || !is {
			continue
		}
		var want []string
		for ; !strings.HasPrefix(lines[i+1], "$ ") && lines[i+1] != "```"; i++ {
			want = append(want, lines[i+1])
		}
		commands++
		p := start(t, "PATH="+bin+":"+os.Getenv("PATH"), "SCRATCH="+folder, "bash", "-c", `cd "$SCRATCH"; `+strings.ReplaceAll(command, "sleep 1", listened))
		if status := p.status(); status != 0 {
			t.Errorf("%s: status %d", command, status)
		}
		got := p.output()
		if slices.Equal(normal(want), normal(got)) {
			got = want
		} else if !*update {
			t.Errorf("the output of\n%s\nhas changed; run with -update, and look at the difference. It is\n%s\nand was\n%s",
				command, strings.Join(normal(got), "\n"), strings.Join(normal(want), "\n"))
		}
		after = append(after, got...)
	}
	if commands < 8 {
		t.Errorf("%s has %d commands", path, commands)
	}
	if text := strings.Join(after, "\n"); *update && text != before {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// volatile matches numbers, GUIDs and addresses.
var volatile = regexp.MustCompile(`\b(0x)?[0-9a-f]*\d[0-9a-f.:]*\b`)

// normal returns lines without what differs from run to run, and with single spaces.
func normal(lines []string) []string {
	var out []string
	for _, line := range lines {
		out = append(out, strings.Join(strings.Fields(volatile.ReplaceAllString(line, "#")), " "))
	}
	return out
}
