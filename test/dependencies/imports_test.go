package dependencies

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// row is a row of ARCHITECTURE.md's table of imports.
type row struct {
	packages string   // a pattern of path.Match
	imports  []string // patterns of path.Match
}

const module = "github.com/rawverbs/rawverbs/"

// TestImportsRunDownwards compares the table with the code. Each import must be in the
// table, the importing package in a row above the imported package. The table must not name
// other imports.
func TestImportsRunDownwards(t *testing.T) {
	table := readTable(t)
	used := map[string]bool{} // "package pattern", "import pattern"
	list := goCommand(t, everything, "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	for line := range strings.Lines(list) {
		name, imports := "", []string{}
		for i, field := range strings.Fields(line) {
			own, is := strings.CutPrefix(field, module)
			switch {
			case i == 0:
				name = own
			case is:
				imports = append(imports, own)
			}
		}
		if len(imports) == 0 || strings.HasPrefix(name, "test/") {
			continue // the package has only tests
		}
		at := rowOf(table, name)
		if at < 0 {
			t.Errorf("%s imports packages, but no row of the table names it", name)
			continue
		}
		for _, imported := range imports {
			i := slices.IndexFunc(table[at].imports, func(pattern string) bool { return matches(pattern, imported) })
			if i < 0 {
				t.Errorf("%s imports %s, but its row does not name that package", name, imported)
				continue
			}
			used[table[at].packages+" "+table[at].imports[i]] = true
			if below := rowOf(table, imported); below <= at {
				t.Errorf("%s imports %s, but the row of %[2]s is not below", name, imported)
			}
		}
	}
	for _, r := range table {
		for _, imported := range r.imports {
			if !used[r.packages+" "+imported] {
				t.Errorf("the row %s names %s, but none of its packages imports it", r.packages, imported)
			}
		}
	}
}

func rowOf(table []row, name string) int {
	return slices.IndexFunc(table, func(r row) bool { return matches(r.packages, name) })
}

func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// readTable reads the table below the heading "Imports".
func readTable(t *testing.T) (table []row) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Imports\n")
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		var r row
		for i, name := range quoted.FindAllStringSubmatch(line, -1) {
			if i == 0 {
				r.packages = name[1]
			} else {
				r.imports = append(r.imports, name[1])
			}
		}
		table = append(table, r)
	}
	if len(table) < 10 {
		t.Fatalf("the table has %d rows", len(table))
	}
	return table
}

// everything is the environment in which go list sees the most files.
var everything = []string{"CGO_ENABLED=1", "GOOS=linux", "GOARCH=amd64"}

// TestPackagesAreSmall limits the lines per package, except for the four largest.
func TestPackagesAreSmall(t *testing.T) {
	const most = 3100 // lines without tests
	large := []string{"verbs", "softroce/internal/transport", "internal/verbstest", "internal/workbench"}
	list := goCommand(t, nil, "list", "-f", `{{.ImportPath}} {{.Dir}}{{range .GoFiles}} {{.}}{{end}}{{range .CgoFiles}} {{.}}{{end}}`, "./...")
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		lines := 0
		for _, file := range fields[2:] {
			text, err := os.ReadFile(filepath.Join(fields[1], file))
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
		}
		if name := strings.TrimPrefix(fields[0], module); lines > most && !slices.Contains(large, name) {
			t.Errorf("%s has %d lines, want at most %d", name, lines, most)
		}
	}
}
