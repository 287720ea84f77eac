//go:build !rdma

package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

var update = flag.Bool("update", false, "write the output of the commands in the documents anew where it has changed")

// documents have console blocks that the tests run: qp-states.md and every page of jobs/. A block
// begins with a command; the rest is the output. The blocks under one heading are one run: servers
// start in the background, the other commands run one after the other.
// After a change: go test ./cmd/e2e -run TestDocuments -update
var documents = []string{"qp-states.md", "jobs/*.md"}

func TestDocuments(t *testing.T) {
	noLeak(t)
	var paths []string
	for _, pattern := range documents {
		found, err := filepath.Glob(filepath.Join("..", "..", "docs", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no page docs/%s (%v)", pattern, err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			runs := consoleRuns(string(text))
			if len(runs) == 0 {
				t.Fatalf("%s has no console blocks", path)
			}
			fresh := string(text)
			for _, run := range runs {
				t.Run(run.heading, func(t *testing.T) {
					run.execute(t)
					for _, b := range run.blocks {
						if slices.Equal(normal(b.output), normal(b.got)) {
							continue
						}
						if !*update {
							t.Errorf("%s, under %q: the output of\n%s\nhas changed (run with -update, and look at the difference); normalised, it was\n%s\nand is\n%s",
								name, run.heading, b.command, strings.Join(normal(b.output), "\n"), strings.Join(normal(b.got), "\n"))
						}
						fresh = strings.Replace(fresh, b.text(b.output), b.text(b.got), 1)
					}
				})
			}
			if *update && fresh != string(text) {
				if err := os.WriteFile(path, []byte(fresh), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// consoleRun has the console blocks under one heading.
type consoleRun struct {
	heading string
	blocks  []*consoleBlock
}

// consoleBlock is a command, its output in the document, and its actual output (got).
type consoleBlock struct{ command, output, got string }

// opening is the beginning of a block, up to the command.
const opening = "```console\n$ "

func (b *consoleBlock) text(output string) string {
	return opening + b.command + "\n" + output + "```\n"
}

func consoleRuns(text string) (runs []*consoleRun) {
	var heading string
	var run *consoleRun
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "#") {
			heading, run = strings.Trim(lines[i], "# \n"), nil
		}
		if !strings.HasPrefix(strings.Join(lines[i:min(i+2, len(lines))], ""), opening) {
			continue
		}
		b := &consoleBlock{command: strings.TrimPrefix(lines[i]+strings.TrimSuffix(lines[i+1], "\n"), opening)}
		for i += 2; lines[i] != "```\n"; i++ {
			b.output += lines[i]
		}
		if run == nil {
			run = &consoleRun{heading: heading}
			runs = append(runs, run)
		}
		run.blocks = append(run.blocks, b)
	}
	return runs
}

// execute runs the commands in a directory with the programs. It uses a free TCP port
// instead of 18515.
func (r *consoleRun) execute(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"rdma_server", "rdma_client"} {
		target, err := filepath.Abs(filepath.Join(binaries, program))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	port := freePort(t)
	ctx := testkit.Context(t)
	var servers []func()
	for _, b := range r.blocks {
		shell := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", strings.ReplaceAll(b.command, "18515", port))
		shell.Dir = dir
		var out strings.Builder
		shell.Stdout, shell.Stderr = &out, &out
		if err := shell.Start(); err != nil {
			t.Fatal(err)
		}
		wait := func() {
			if err := shell.Wait(); err != nil {
				t.Errorf("%s: %v\n%s", b.command, err, &out)
			}
			b.got = withUsualPort(out.String(), port)
		}
		if strings.HasPrefix(b.command, "./rdma_server") {
			waitListening(t, port)
			servers = append(servers, wait)
			continue
		}
		wait()
	}
	for _, wait := range servers {
		wait()
	}
}

// volatile are the parts of an output that differ from run to run.
var volatile = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`^\[[0-9:.]+ #\d+ `), "[time #n "},
	{regexp.MustCompile(`\b(qpn|psn|addr|lkey|rkey|remote_addr|qp_num|DEST_QPN|RQ_PSN|SQ_PSN)=0x[0-9a-f]+`), "$1=…"},
	{regexp.MustCompile(`queue pair 0x[0-9a-f]+`), "queue pair …"},
	{regexp.MustCompile(`127\.\d+\.\d+\.\d+(:\d+)?`), "127.…"},
	{regexp.MustCompile(`clock_offset=\S+ uncertainty=\S+`), "clock_offset=… uncertainty=…"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ns|µs|ms|s)\b`), "…"},
	{regexp.MustCompile(`\b[\d.]+( [KMG]?i?B/s)`), "…$1"},
	{regexp.MustCompile(`pid[ =]\d+`), "pid …"},
	{regexp.MustCompile(`text_bytes=\d+ text_crc32c=0x[0-9a-f]+`), "text_bytes=… text_crc32c=…"}, // a text with a pid
	{regexp.MustCompile(` so=[^·]*$`), ""},                                                       // either of the two conditions may be last
	{regexp.MustCompile(`\b(seed|mib_per_s|completions|stalls)=[0-9a-f.]+`), "$1=…"},
	{regexp.MustCompile(`\bxxh64 [0-9a-f]+`), "xxh64 …"},
	{regexp.MustCompile(`^( \d+ +\d+)( +\d+\.\d+)+$`), "$1 …"}, // a row of figures
	// Of a story:
	{regexp.MustCompile(`text_bytes=\d+, text_crc32c=0x[0-9a-f]+`), "text_bytes=…, text_crc32c=…"},
	{regexp.MustCompile(`^  (local|remote) +0x[0-9a-f]+ +0x[0-9a-f]+`), "$1 … …"},
	{regexp.MustCompile(`PSN 0x[0-9a-f]+`), "PSN …"},
	{regexp.MustCompile(`, so [^)]*\)`), ")"},
	{regexp.MustCompile(`^(complete +RDMA_WRITE) \(wr_id=\d+`), "$1 (wr_id=…"},
	{regexp.MustCompile(`flushed: \d+ of them`), "flushed: … of them"},
	{regexp.MustCompile(`[\d.]+ (seconds|Mbit/sec|usec/iter)`), "… $1"},
	{regexp.MustCompile(`(messages|reports|waits_for_space|us_per_round_trip)=[\d.]+`), "$1=…"},
}

// wrapped matches the beginning of a line that continues the line before.
var wrapped = regexp.MustCompile(`\n(\[\d+\] )? {12,}`)

// stalled matches the warnings of job bulk on a host that was busy for a moment.
var stalled = regexp.MustCompile(`nothing (has )?completed for over `)

// normal returns an output without the parts that differ from run to run. It joins wrapped
// lines, because numbers change the line breaks. It sorts the lines, because the messages of
// both ends cross.
func normal(output string) []string {
	lines := strings.Split(wrapped.ReplaceAllString(strings.TrimSpace(output), " "), "\n")
	lines = slices.DeleteFunc(lines, stalled.MatchString)
	for i := range lines {
		for _, v := range volatile {
			lines[i] = v.pattern.ReplaceAllString(lines[i], v.instead)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestNormal checks that normal keeps the differences of a stale document.
func TestNormal(t *testing.T) {
	a := fmt.Sprintf("[10:00:00.000 #0001 client] CONTROL RESET→INIT  qpn=0x12 mask=%s took=5µs\n", "0x39")
	b := fmt.Sprintf("[11:00:00.123 #0009 client] CONTROL RESET→INIT  qpn=0xab mask=%s took=7.5ms\n", "0x39")
	if !slices.Equal(normal(a), normal(b)) {
		t.Errorf("%q and %q differ", normal(a), normal(b))
	}
	stall := "warning     nothing has completed for over 200ms (2752512 bytes,\n            hint=the peer sent nothing)\n" +
		"warning     1 times nothing completed for over 200ms (stalls=1)\n"
	if !slices.Equal(normal(a), normal(a+stall)) {
		t.Errorf("%q and %q differ", normal(a), normal(a+stall))
	}
	if slices.Equal(normal(a), normal(strings.ReplaceAll(a, "0x39", "0x3b"))) {
		t.Error("another mask is not seen")
	}
}

// withUsualPort returns a text with the usual port in place of a free one, whose digits may stand in other numbers.
func withUsualPort(text, port string) string {
	return regexp.MustCompile(`\b`+port+`\b`).ReplaceAllString(text, "18515")
}
