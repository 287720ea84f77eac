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
	sources, err := filepath.Glob(filepath.Join("..", "..", "..", "cabi", "shim", "*.c"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no sources of the shim: %v", err)
	}
	args := slices.Concat([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fsanitize=" + sanitizer,
		"-fno-omit-frame-pointer", "-Wl,-z,nodelete", "-Wl,--version-script=" + filepath.Join("..", "..", "..", "cabi", "shim", "shim.map"), "-o", library},
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
	env := start(t, ours("rawverbs"), "env")
	env.succeeds()
	for _, line := range env.output() {
		if variable, value, _ := strings.Cut(strings.TrimPrefix(line, "export "), "="); variable != "LD_PRELOAD" {
			options = append(options, variable+"="+strings.Trim(value, "'"))
		}
	}
	return append(options, "LD_PRELOAD="+strings.TrimSpace(string(path))+":"+library)
}

// sanitizerFound is the exit status after an error, a leak or a race.
const sanitizerFound = 99

// findsNothing checks that a program succeeds, and its sanitizer too.
func (p *program) findsNothing(t *testing.T) {
	t.Helper()
	if status := p.status(); status == sanitizerFound {
		t.Errorf("%q: the sanitizer found something:\n%s", p.command, p.text())
	} else if status != 0 {
		t.Errorf("%q: status %d", p.command, status)
	}
}

// TestThreadSanitizer looks for races in the shim. It does not see the core's code, which is Go. Its own handlers of
// signals are off, because it would set them before it can run the shim's sigaction.
func TestThreadSanitizer(t *testing.T) {
	variables := sanitized(t, "thread", "libtsan.so",
		"TSAN_OPTIONS=exitcode=99:handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0")
	walk := compile(t, "walk", "-fsanitize=thread")
	for seed := range 3 {
		t.Run(fmt.Sprint("walk/", seed), func(t *testing.T) {
			start(t, slices.Concat(variables, []string{walk, strconv.Itoa(seed), "2000"})...).findsNothing(t)
		})
	}
}

// TestAddressSanitizer runs the shim with AddressSanitizer, which also looks for leaks at the end.
// The programs of this folder free all.
func TestAddressSanitizer(t *testing.T) {
	variables := sanitized(t, "address", "libasan.so", "ASAN_OPTIONS=exitcode=99")
	run := func(command ...string) *program { return start(t, slices.Concat(variables, command)...) }
	for _, options := range [][]string{{"-c"}, {"-c", "-e"}, {"-c", "-e", "-o"}, {"-c", "-t"}, {"-c", "-N"}} {
		t.Run("pingpong"+strings.Join(options, ""), func(t *testing.T) {
			port := freePort(t)
			server := run(slices.Concat([]string{"ibv_rc_pingpong", "-g", "1", "-p", port}, options)...)
			server.listens(port)
			client := run(slices.Concat([]string{"ibv_rc_pingpong", "-g", "1", "-p", port}, options, []string{"127.0.0.1"})...)
			client.findsNothing(t)
			server.findsNothing(t)
		})
	}
	for name, cases := range map[string][]string{
		"channels": {"nonblocking", "many", "replaced", "full", "acks"},
		"threads":  {"separate", "shared", "events", "cancel", "cancel-busy", "short-lived"},
	} {
		program := compile(t, name)
		for _, c := range cases {
			t.Run(name+"/"+c, func(t *testing.T) { run(program, c).findsNothing(t) })
		}
	}
	program := compile(t, "random")
	for seed := range 4 {
		t.Run(fmt.Sprint("random/", seed), func(t *testing.T) { run(program, strconv.Itoa(seed), "10000").findsNothing(t) })
	}
	t.Run("walk", func(t *testing.T) {
		start(t, slices.Concat(variables, []string{compile(t, "walk"), "0", "2000"})...).findsNothing(t)
	})
}
