package dependencies

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestImportC checks where the product contains C: in the provider of libibverbs, in its calls past
// cgo, and in the C library of the software device. Packages that only tests import may contain C.
func TestImportC(t *testing.T) {
	product := map[string]bool{} // packages that others import, and commands
	const imports = `{{if eq .Name "main"}}{{.ImportPath}}{{end}}{{range .Imports}} {{.}}{{end}}`
	for _, name := range strings.Fields(goCommand(t, everything, "list", "-f", imports, "./...")) {
		product[name] = true
	}
	found := map[string]int{}
	const files = `{{.ImportPath}}{{range .CgoFiles}} {{.}}{{end}}`
	for line := range strings.Lines(goCommand(t, everything, "list", "-f", files, "./...")) {
		fields := strings.Fields(line)
		name := strings.TrimPrefix(fields[0], module)
		for _, file := range fields[1:] {
			provider, _ := filepath.Match("ibv_*.go", file)
			switch {
			case name == "verbs" && provider, name == "verbs/internal/ccall", name == "cabi/core":
				found[name]++
			case product[fields[0]]:
				t.Errorf("%s/%s imports C; only verbs/ibv_*.go, verbs/internal/ccall and cabi/core may", name, file)
			}
		}
	}
	for _, name := range []string{"verbs", "verbs/internal/ccall", "cabi/core"} {
		if found[name] == 0 {
			t.Errorf("go list shows no file of %s that imports C", name)
		}
	}
}
