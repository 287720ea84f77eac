// Package dependencies tests which packages import which, what the libraries and the commands link, how large they are,
// how errors are made, and that no test measures time.
package dependencies

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/rawverbs/rawverbs/"

// TestImportsRunDownwards compares ARCHITECTURE.md's table of imports with the code. Each import of a package must be in
// the package's row, and the imported package's row below. The table must not name other imports.
func TestImportsRunDownwards(t *testing.T) {
	table := readTable(t)
	rowOf := func(name string) int {
		return slices.IndexFunc(table, func(row []string) bool { return matches(row[0], name) })
	}
	used := map[string]bool{} // "package pattern", "import pattern"
	for name, p := range packages(t) {
		for _, imported := range p.Imports {
			imported, own := strings.CutPrefix(imported, module)
			if !own || strings.HasPrefix(name, "test/") {
				continue
			}
			at, i := rowOf(name), -1
			if at >= 0 {
				i = slices.IndexFunc(table[at][1:], func(pattern string) bool { return matches(pattern, imported) })
			}
			switch {
			case i < 0:
				t.Errorf("%s imports %s, but has no row in ARCHITECTURE.md that names that package", name, imported)
				continue
			case rowOf(imported) <= at:
				t.Errorf("%s imports %s, but the row of %[2]s is not below", name, imported)
			}
			used[table[at][0]+" "+table[at][i+1]] = true
		}
	}
	for _, row := range table {
		for _, imported := range row[1:] {
			if !used[row[0]+" "+imported] {
				t.Errorf("the row %s names %s, but none of its packages imports it", row[0], imported)
			}
		}
	}
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// readTable reads the table below the heading "Imports": in each row patterns of the packages and of what they import.
func readTable(t *testing.T) (table [][]string) {
	_, section, _ := strings.Cut(read(t, "ARCHITECTURE.md"), "\n## Imports\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			table = append(table, found(line, regexp.MustCompile("`([^`]+)`")))
		}
	}
	if len(table) < 10 {
		t.Fatalf("the table has %d rows", len(table))
	}
	return table
}

// TestImportC: the product contains C in the provider of libibverbs, in its calls past cgo, and in the C library of the
// software device. Packages that only tests import may contain C.
func TestImportC(t *testing.T) {
	all, product, has := packages(t), map[string]bool{}, map[string]bool{}
	for name, p := range all {
		product[name] = product[name] || p.Name == "main"
		for _, imported := range p.Imports {
			product[strings.TrimPrefix(imported, module)] = true
		}
	}
	for name, p := range all {
		for _, file := range p.CgoFiles {
			allowed := name == "verbs" && matches("ibv_*.go", file) || name == "verbs/internal/ccall" || name == "cabi/core"
			if allowed {
				has[name] = true
			} else if product[name] {
				t.Errorf("%s/%s imports C; only verbs/ibv_*.go, verbs/internal/ccall and cabi/core may", name, file)
			}
		}
	}
	if len(has) < 3 {
		t.Errorf("go list shows C only in %v", has)
	}
}

// TestLinks: the libraries link pkg/errors and x/sys at most. Of the commands only rdma_server links Prometheus's library,
// with net/http and protobuf.
func TestLinks(t *testing.T) {
	for _, env := range [][]string{{"GOOS=linux", "CGO_ENABLED=1"}, {"GOOS=linux", "CGO_ENABLED=0"}, {"GOOS=darwin", "CGO_ENABLED=0"}} {
		for _, library := range []string{"qpstate", "oob", "verbs", "rc", "rnet", "softroce"} {
			const modules = `{{with .Module}}{{if not .Main}}{{$.ImportPath}}={{.Path}}{{end}}{{end}}`
			for linked := range strings.FieldsSeq(goCommand(t, env, "list", "-deps", "-f", modules, "./"+library+"/...")) {
				pkg, linked, _ := strings.Cut(linked, "=")
				deep := library != "qpstate" && library != "oob"
				if linked != "github.com/pkg/errors" && (!deep || linked != "golang.org/x/sys") {
					t.Errorf("%v: %s links %s of module %s", env, library, pkg, linked)
				}
			}
		}
	}
	for name, p := range packages(t) {
		if p.Name == "main" && strings.HasPrefix(name, "cmd/") {
			if links := strings.Contains(strings.Join(p.Deps, " "), "github.com/prometheus/"); links != (name == "cmd/rdma_server") {
				t.Errorf("%s links Prometheus's library: %v", name, links)
			}
		}
	}
}

// TestSizes limits the modules of go list -m all, which has those of the commands and of the tests of linked modules; the
// commands, built without -ldflags; and the lines of all packages but the four largest.
func TestSizes(t *testing.T) {
	const MiB = 1 << 20
	if modules := strings.Fields(goCommand(t, nil, "list", "-m", "-f", "{{.Path}}", "all")); len(modules) > 50 { // 23 of them for metrics
		t.Errorf("the module graph has %d modules, want at most 50: %v", len(modules), modules)
	}
	dir := t.TempDir()
	goCommand(t, nil, "build", "-o", dir+"/", "./cmd/...")
	// crypto/tls is 2 MiB of each but rawverbs, metrics are 5 MiB, the laboratory is 2 MiB.
	for name, most := range map[string]int64{"rdma_client": 15 * MiB, "rdma_server": 20 * MiB, "rdma_lab": 19 * MiB, "rawverbs": 9 * MiB} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		} else if info.Size() > most {
			t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), most)
		}
	}
	large := []string{"verbs", "softroce/internal/transport", "internal/verbstest", "internal/workbench"}
	for name, p := range packages(t) {
		lines := 0
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles) {
			lines += strings.Count(read(t, name+"/"+file), "\n")
		}
		if lines > 3100 && !slices.Contains(large, name) {
			t.Errorf("%s has %d lines, want at most 3100", name, lines)
		}
	}
}

// listed is a package as go list prints it.
type listed struct {
	ImportPath, Name                 string
	Imports, Deps, GoFiles, CgoFiles []string
}

// packages lists the module's packages by their folders, for the system whose packages have the most files.
func packages(t *testing.T) map[string]listed {
	all := map[string]listed{}
	env := []string{"CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64"}
	list := json.NewDecoder(strings.NewReader(goCommand(t, env, "list", "-json=ImportPath,Name,Imports,Deps,GoFiles,CgoFiles", "./...")))
	for list.More() {
		var p listed
		if err := list.Decode(&p); err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module)] = p
	}
	return all
}

// goCommand runs the go command in the module's root and returns its output.
func goCommand(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
