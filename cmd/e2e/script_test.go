package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// script is a run of a script of scripts/, from a folder outside the repository.
type script struct {
	t              *testing.T
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	stdout, stderr bytes.Buffer
}

func scriptPath(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "scripts", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newScript prepares a run with these variables added to the environment.
func newScript(t *testing.T, env []string, name string, args ...string) *script {
	t.Helper()
	// A clean-up runs scripts too, when the test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testkit.Limit)
	s := &script{t: t, cancel: cancel, cmd: exec.CommandContext(ctx, scriptPath(t, name), args...)}
	s.cmd.Dir = t.TempDir()
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.stdout, &s.stderr
	s.cmd.WaitDelay = testkit.Limit
	return s
}

func (s *script) start() *script {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.cancel()
		s.cmd.Wait()
	})
	return s
}

// ends checks the exit status, and that stdout and stderr contain all of want. With status 1
// stderr must be one line.
func (s *script) ends(status int, want ...string) {
	s.t.Helper()
	err := s.cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		s.t.Fatal(err)
	}
	failed := false
	wrong := func(format string, args ...any) {
		s.t.Helper()
		failed = true
		s.t.Errorf(format, args...)
	}
	if got := s.cmd.ProcessState.ExitCode(); got != status {
		wrong("%q: status %d, want %d", s.cmd.Args, got, status)
	}
	text := s.stdout.String() + s.stderr.String()
	for _, w := range want {
		if !strings.Contains(text, w) {
			wrong("%q: no %q", s.cmd.Args, w)
		}
	}
	if status == 1 && strings.Count(s.stderr.String(), "\n") != 1 {
		wrong("%q: stderr is not one line", s.cmd.Args)
	}
	if failed {
		s.t.Logf("%q\nstdout:\n%s\nstderr:\n%s", s.cmd.Args, &s.stdout, &s.stderr)
	}
}

// runScript runs a script to its end.
func runScript(t *testing.T, env []string, name string, args ...string) *script {
	t.Helper()
	return newScript(t, env, name, args...).start()
}
