// Package dependencies tests which modules the libraries and the commands link, how large
// the commands are, and which packages import which.
package dependencies

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	pkgErrors = "github.com/pkg/errors"
	sys       = "golang.org/x/sys"
)

// libraries are the public packages. Each lists the modules that it may link.
var libraries = map[string][]string{
	"qpstate":  {pkgErrors},
	"oob":      {pkgErrors},
	"verbs":    {pkgErrors, sys},
	"rc":       {pkgErrors, sys},
	"rnet":     {pkgErrors, sys},
	"softroce": {pkgErrors, sys},
}

func TestLibrariesLinkFewModules(t *testing.T) {
	systems := map[string][]string{ // the environment of each build
		"linux with cgo":    {"GOOS=linux", "CGO_ENABLED=1"},
		"linux without cgo": {"GOOS=linux", "CGO_ENABLED=0"},
		"darwin":            {"GOOS=darwin", "CGO_ENABLED=0"},
	}
	for system, env := range systems {
		t.Run(system, func(t *testing.T) {
			for library, allowed := range libraries {
				const foreign = `{{with .Module}}{{if not .Main}}{{$.ImportPath}} {{.Path}}{{end}}{{end}}`
				list := goCommand(t, env, "list", "-deps", "-f", foreign, "./"+library+"/...")
				for line := range strings.Lines(list) {
					pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
					if module != "" && !slices.Contains(allowed, module) {
						t.Errorf("%s links %s of %s; only these modules are allowed: %v", library, pkg, module, allowed)
					}
				}
			}
		})
	}
}

// TestModuleGraphIsSmall counts the modules of go list -m all, which includes those of the
// commands and of the tests of linked modules.
func TestModuleGraphIsSmall(t *testing.T) {
	const most = 50 // 23 of them are Prometheus's, for rdma_server --metrics
	modules := strings.Fields(goCommand(t, nil, "list", "-m", "-f", "{{.Path}}", "all"))
	if len(modules) > most {
		t.Errorf("the module graph has %d modules, want at most %d:\n%s", len(modules), most, strings.Join(modules, "\n"))
	}
}

// TestCommandsAreSmall checks the size of the commands, built without -ldflags. The handshakes of
// crypto/tls with their verification of certificates (--tls) are 2 MiB of each, except rawverbs.
// rdma_server has metrics, which are 5 MiB. rdma_lab has the laboratory, which is 2 MiB with its engine, and net/http.
func TestCommandsAreSmall(t *testing.T) {
	const MiB = 1 << 20
	dir := t.TempDir()
	goCommand(t, nil, "build", "-o", dir+"/", "./cmd/...")
	for name, most := range map[string]int64{"rdma_client": 15 * MiB, "rdma_server": 20 * MiB, "rdma_lab": 19 * MiB, "rawverbs": 9 * MiB} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes", name, info.Size())
		if info.Size() > most {
			t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), most)
		}
	}
}

// TestOnlyTheServerLinksPrometheus: metrics are 5 MiB of rdma_server, with net/http and protobuf.
func TestOnlyTheServerLinksPrometheus(t *testing.T) {
	for _, name := range []string{"rdma_server", "rdma_client", "rdma_lab", "rawverbs"} {
		list := goCommand(t, nil, "list", "-deps", "./cmd/"+name)
		if links := strings.Contains(list, "github.com/prometheus/"); links != (name == "rdma_server") {
			t.Errorf("%s links Prometheus's library: %v", name, links)
		}
	}
}

// goCommand runs the go command in the module's root and returns its output.
func goCommand(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, stderr.String()))
	}
	return string(out)
}
