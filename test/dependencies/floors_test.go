// The floors of the house, for the code that is no test. .golangci.yml has the rules that floors do not give.

package dependencies

import (
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// floors are the module's folders, the highest first. A package imports packages of its own folder and of the floors below.
var floors = [][]string{
	{"cmd", "examples", "test", "deploy", "tools"},
	{"cmd/internal/app", "cmd/internal/lab"},
	{"cmd/internal/peer"},
	{"cmd/internal/job"},
	{"cmd/internal/view"},
	{"cmd/internal/usage"},
	{"rnet", "cabi", "web", "docs"},
	{"rc"},
	{"softroce"},
	{"verbs"},
	{"internal"},
	{"oob", "qpstate"},
}

// floorOf returns the folder of floors that a folder is in, the longest that fits, and its floor, which is -1 if there is none.
func floorOf(dir string) (folder string, floor int) {
	floor = -1
	for i, row := range floors {
		for _, f := range row {
			if (dir == f || strings.HasPrefix(dir, f+"/")) && len(f) > len(folder) {
				folder, floor = f, i
			}
		}
	}
	return folder, floor
}

// TestImportsRunDownwards: no arrow between folders runs back up, whatever the build tags.
func TestImportsRunDownwards(t *testing.T) {
	for _, name := range goFiles(t) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		folder, floor := floorOf(path.Dir(name))
		if floor < 0 {
			t.Errorf("%s is on none of the floors; try: another folder, or a row of floors", name)
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			dir, ours := strings.CutPrefix(imported, "github.com/rawverbs/rawverbs/")
			if to, below := floorOf(dir); ours && to != folder && below <= floor {
				t.Errorf("%s imports %s, which is not on a floor below %s", name, dir, folder)
			}
		}
	}
}

// TestFoldersHaveFewRooms: a reader can take in nine names.
func TestFoldersHaveFewRooms(t *testing.T) {
	for _, dir := range []string{"internal", "cmd/internal"} {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() })
		if len(entries) > 9 {
			t.Errorf("%s has %d folders, want at most 9: %v", dir, len(entries), entries)
		}
	}
}
