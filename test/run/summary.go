package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// screen is the number of lines that the output of all failed tests may take together.
const screen = 32

// summary prints the end of the run.
func (r *run) summary(name, log string, took time.Duration) {
	failed := r.leaves()
	total := fmt.Sprintf("%d tests in %d packages, %.0f s", r.tests, r.packages, took.Seconds())
	if len(failed) == 0 {
		fmt.Fprintf(r.out, "%s: %s\n", name, total)
		return
	}
	const most = 8
	each := screen / min(len(failed), most)
	for i, f := range failed {
		if i == most {
			fmt.Fprintf(r.out, "\n… and %d more\n", len(failed)-most)
			break
		}
		r.show(f, each)
	}
	fmt.Fprintf(r.out, "\n%s: %d failed of %s. The whole output: %s\n", name, len(failed), total, log)
}

// leaves returns the failed tests without those that failed only because a part of them failed.
func (r *run) leaves() (leaves []failure) {
	for _, f := range r.failed {
		if !slices.ContainsFunc(r.failed, func(g failure) bool {
			return g.Package == f.Package && g.Test != f.Test && (f.Test == "" || strings.HasPrefix(g.Test, f.Test+"/"))
		}) {
			leaves = append(leaves, f)
		}
	}
	return leaves
}

// show prints a failed test, at most lines of its output, and how to run it alone.
func (r *run) show(f failure, lines int) {
	fmt.Fprintf(r.out, "\nFAIL %s %s (%.1f s)\n", short(f.Package), f.Test, f.elapsed)
	said := r.said(f.test)
	head, tail := said, []string(nil)
	if len(said) > lines { // the reason may be at either end
		head, tail = said[:lines/2], said[len(said)-lines+lines/2+1:]
	}
	for _, line := range head {
		fmt.Fprintf(r.out, "    %s\n", clip(line))
	}
	if left := len(said) - len(head) - len(tail); left > 0 {
		fmt.Fprintf(r.out, "    … %d more lines\n", left)
	}
	for _, line := range tail {
		fmt.Fprintf(r.out, "    %s\n", clip(line))
	}
	alone := append([]string{"go", "test"}, r.again...)
	if i := slices.Index(alone, "-args"); i >= 0 { // it ends the flags
		alone = slices.Insert(alone, i, append(only(f.Test), short(f.Package))...)
	} else {
		alone = append(append(alone, only(f.Test)...), short(f.Package))
	}
	text := strings.Join(alone, " ")
	if v := os.Getenv("CGO_ENABLED"); v != "" && v != "1" {
		text = "CGO_ENABLED=" + v + " " + text
	}
	fmt.Fprintf(r.out, "  alone: %s\n", text)
}

// said returns the lines of a test's output that say why it failed.
func (r *run) said(of test) (lines []string) {
	text := r.output[of]
	if text == nil {
		return nil
	}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- FAIL") || trimmed == "FAIL" {
			continue
		}
		lines = append(lines, line)
	}
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "panic: test timed out") }); i >= 0 {
		return hung(lines[i:], of.Test)
	}
	return lines
}

// hung returns what matters of a timeout's output: the tests that ran, and where the test's goroutine was.
func hung(lines []string, name string) (short []string) {
	end := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "goroutine ") })
	if end < 0 {
		return lines
	}
	short = lines[:end:end]
	function, _, _ := strings.Cut(name, "/")
	for at := end; at < len(lines); {
		next := slices.IndexFunc(lines[at+1:], func(l string) bool { return strings.HasPrefix(l, "goroutine ") })
		next = at + 1 + next
		if next <= at {
			next = len(lines)
		}
		stack := lines[at:next]
		if slices.ContainsFunc(stack, func(l string) bool {
			return strings.Contains(l, "."+function+"(") || strings.Contains(l, "."+function+".func")
		}) {
			if i := slices.IndexFunc(stack, func(l string) bool { return strings.HasPrefix(l, "testing.tRunner(") }); i > 0 {
				stack = stack[:i]
			}
			return append(short, stack...)
		}
		at = next
	}
	return append(short, lines[end:]...)
}

// only returns the flags that choose one test. go test splits the expression at slashes.
func only(name string) []string {
	if name == "" {
		return nil
	}
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + strings.ReplaceAll(regexp.QuoteMeta(part), "'", ".") + "$" // within a shell's single quotes
	}
	return []string{"-run", "'" + strings.Join(parts, "/") + "'"}
}

func clip(line string) string {
	const width = 160
	if runes := []rune(line); len(runes) > width {
		return string(runes[:width]) + "…"
	}
	return line
}
