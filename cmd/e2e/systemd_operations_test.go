//go:build operations && !rdma

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestOpsUnit has systemd-analyze read the unit with and without the drop-in.
func TestOpsUnit(t *testing.T) {
	unit, certificates, _ := deployed(t)
	dir := t.TempDir()
	own := strings.NewReplacer("/usr/bin/rawverbs-server", filepath.Join(binaries, "rdma_server"))
	for _, file := range []struct{ name, text string }{{"rdma_server.service", unit}, {"rdma_server.service.d/override.conf", certificates}} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file.name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file.name), []byte(own.Replace(file.text)), 0o600); err != nil {
			t.Fatal(err)
		}
		verify := exec.CommandContext(testkit.Context(t), "systemd-analyze", "verify", "--man=no", "rdma_server.service")
		verify.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
		if out, err := verify.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("with %s: %v: %s", file.name, err, out)
		}
	}
}
