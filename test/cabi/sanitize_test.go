//go:build cabi

package cabi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sanitized builds the shim with a sanitizer, and returns what preloads it: variables, as start
// takes them.
func sanitized(t *testing.T, sanitizer, runtime string, options ...string) []string {
	t.Helper()
	library := filepath.Join(bin, "librawverbs-"+sanitizer+".so")
	sources, err := filepath.Glob(filepath.Join("..", "..", "cabi", "shim", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of the shim: %v", err)
	}
	args := slices.Concat([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fsanitize=" + sanitizer,
		"-fno-omit-frame-pointer", "-Wl,-z,nodelete", "-Wl,--version-script=" + filepath.Join("..", "..", "cabi", "shim", "shim.map"), "-o", library},
		sources, []string{"-ldl", "-lpthread"})
	if text, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("cc: %v\n%s", err, text)
	}
	if err := os.Chmod(library, 0o755); err != nil {
		t.Fatal(err)
	}
	path, err := exec.CommandContext(t.Context(), "cc", "-print-file-name="+runtime).Output()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"LD_PRELOAD=" + strings.TrimSpace(string(path)) + ":" + library,
		"RAWVERBS_CORE=" + ours("librawverbs-core.so"), "RAWVERBS_DEVICE=soft0"}, options...)
}

// TestAddressSanitizer runs the shim with AddressSanitizer, which also looks for leaks at the end.
// The programs of this folder free all.
func TestAddressSanitizer(t *testing.T) {
	const found = 99 // the exit status after an error or a leak
	variables := sanitized(t, "address", "libasan.so", "ASAN_OPTIONS=exitcode=99")
	run := func(command ...string) *program { return start(t, slices.Concat(variables, command)...) }
	check := func(t *testing.T, p *program) {
		t.Helper()
		if status := p.status(); status == found {
			t.Errorf("%q: AddressSanitizer found something:\n%s", p.command, p.text())
		} else if status != 0 {
			t.Errorf("%q: status %d", p.command, status)
		}
	}
	for _, options := range [][]string{{"-c"}, {"-c", "-e"}, {"-c", "-e", "-o"}, {"-c", "-t"}, {"-c", "-N"}} {
		t.Run("pingpong"+strings.Join(options, ""), func(t *testing.T) {
			port := freePort(t)
			server := run(slices.Concat([]string{"ibv_rc_pingpong", "-g", "1", "-p", port}, options)...)
			server.listens(port)
			client := run(slices.Concat([]string{"ibv_rc_pingpong", "-g", "1", "-p", port}, options, []string{"127.0.0.1"})...)
			check(t, client)
			check(t, server)
		})
	}
	for name, cases := range map[string][]string{
		"channels": {"nonblocking", "many", "replaced", "full", "acks"},
		"threads":  {"separate", "shared", "events", "cancel", "short-lived"},
	} {
		program := compile(t, name)
		for _, c := range cases {
			t.Run(name+"/"+c, func(t *testing.T) { check(t, run(program, c)) })
		}
	}
	program := compile(t, "random")
	for seed := range 4 {
		t.Run(fmt.Sprint("random/", seed), func(t *testing.T) { check(t, run(program, strconv.Itoa(seed), "10000")) })
	}
}
