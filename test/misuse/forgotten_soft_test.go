//go:build !rdma

package misuse_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// openSoft0WithoutImport runs a program that imports only verbs, built with env, and returns the error that
// it prints.
func openSoft0WithoutImport(t *testing.T, env string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./testdata/forgotten")
	cmd.Env = os.Environ()
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return errors.New(strings.TrimSpace(string(out)))
}
