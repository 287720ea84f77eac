//go:build operations

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestOpsVersions runs deploy/version.sh in a repository of its own: before the first tag, at tags, after them, and with
// files that are not committed. test/packages has dpkg and rpm compare such versions.
func TestOpsVersions(t *testing.T) {
	script, err := filepath.Abs(filepath.Join("..", "..", "deploy", "version.sh"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(command ...string) string {
		t.Helper()
		c := exec.CommandContext(testkit.Context(t), command[0], command[1:]...)
		c.Dir = dir
		c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=test", "GIT_COMMITTER_EMAIL=test@localhost",
			"GIT_AUTHOR_DATE=2026-11-26T23:38:28Z", "GIT_COMMITTER_DATE=2026-11-27T01:38:28+02:00", "GIT_CONFIG_GLOBAL=/dev/null")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	is := func(want string, arguments ...string) {
		t.Helper()
		if got := run(append([]string{script}, arguments...)...); !regexp.MustCompile("^" + want + "$").MatchString(got) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	commit := func() { run("git", "commit", "-q", "--allow-empty", "-m", "test") }
	file := filepath.Join(dir, "file")
	changed := func(want string) {
		t.Helper()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		is(want)
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	run("git", "init", "-q")
	commit()
	commit()
	is(`0\.0\.0~git20261126233828\.2\.g[0-9a-f]{7,}`)
	is(`0\.0\.0~git20261126233828\.1\.g[0-9a-f]{7,}`, "HEAD~1")
	changed(`0\.0\.0~git20261126233828\.2\.g[0-9a-f]{7,}\.dirty`)
	run("git", "tag", "v1.3.0-rc1")
	is(`1\.3\.0~rc1`)
	changed(`1\.3\.0~rc1\+0\.g[0-9a-f]{7,}\.dirty`)
	commit()
	is(`1\.3\.0~rc1\+1\.g[0-9a-f]{7,}`)
	changed(`1\.3\.0~rc1\+1\.g[0-9a-f]{7,}\.dirty`)
	run("git", "tag", "v1.3.0")
	is(`1\.3\.0`)
}
