package main

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestScreen runs a module with a build that fails, a test that fails, one that ends the process and one that hangs.
func TestScreen(t *testing.T) {
	args := []string{"-timeout", "2s", "-tags=some", "./..."}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = "testdata/broken"
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	events, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
		t.Fatalf("go test: %v", err)
	}
	var out bytes.Buffer
	r := newRun(args, &out, io.Discard)
	r.read(bytes.NewReader(events))
	out.Reset()
	r.summary("check", "out/test/check.log", 0)
	screen := out.String()
	for _, want := range []string{
		"FAIL ./broken/build", `cannot use "no number"`, "alone: ", "go test -tags=some ./broken/build\n",
		"FAIL ./broken/fails TestFails/it's_a_case (", "line 0\n", "more lines\n", "the reason\n", `go test -tags=some -run '^TestFails$/^it.s_a_case$' ./broken/fails`,
		"FAIL ./broken/exits TestExits (", "the end of the process\n", "go test -tags=some -run '^TestExits$' ./broken/exits",
		"FAIL ./broken/hangs TestHangs (", "panic: test timed out after 2s", "hangs_test.go:7", "go test -tags=some -run '^TestHangs$' ./broken/hangs",
		"check: 4 failed of ", "The whole output: out/test/check.log\n",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("the last screen has no %q", want)
		}
	}
	if n := strings.Count(screen, "\n"); n > 50 {
		t.Errorf("it has %d lines", n)
	}
	if strings.Contains(screen, "silence") || strings.Contains(screen, "chan receive]:\nmain") {
		t.Error("it has the output of a test that passed")
	}
	if t.Failed() {
		t.Log("\n" + screen)
	}
}

// TestGreen: a run without failures ends with one line.
func TestGreen(t *testing.T) {
	var out bytes.Buffer
	r := newRun(nil, &out, io.Discard)
	r.read(strings.NewReader(`{"Action":"start","Package":"github.com/rawverbs/rawverbs/oob"}
{"Action":"output","Package":"github.com/rawverbs/rawverbs/oob","Test":"TestA","Output":"=== RUN TestA\n"}
{"Action":"pass","Package":"github.com/rawverbs/rawverbs/oob","Test":"TestA","Elapsed":0.1}
no event
{"Action":"output","Package":"github.com/rawverbs/rawverbs/oob","Output":"ok \tx\t(cached)\n"}
{"Action":"pass","Package":"github.com/rawverbs/rawverbs/oob","Elapsed":0.2}
`))
	r.summary("check", "", 0)
	if want := "no event\nok   ./oob 0.2 s (cached)\ncheck: 1 tests in 1 packages, 0 s\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestFlags: what another run of one test needs.
func TestFlags(t *testing.T) {
	for args, want := range map[string]string{
		"-race ./a ./b":                          "-race",
		"-p 3 -tags cabi -run X -count=1 ./a":    "-tags cabi",
		"-tags=lab -skip Y -timeout 30m -v ./a":  "-tags=lab -v",
		"-race ./a -args -whole ./no-package":    "-race -args -whole ./no-package",
		"-run=X -exec=./in-vm.sh ./cmd/e2e/ ./b": "-exec=./in-vm.sh",
	} {
		if got := flags(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: %q, want %s", args, got, want)
		}
	}
}
