package dependencies

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var root = filepath.Join("..", "..")

// TestErrorsAreMadeOneWay looks through the libraries and the commands: errors is github.com/pkg/errors, and fmt.Errorf
// wraps in a way that pkg/errors cannot.
func TestErrorsAreMadeOneWay(t *testing.T) {
	for _, name := range goFiles(t) {
		if own := regexp.MustCompile(`^(test|examples|tools)/|_test\.go$`); own.MatchString(name) {
			continue
		}
		set, file := parse(t, name)
		for _, spec := range file.Imports {
			if spec.Path.Value == `"errors"` && (spec.Name == nil || spec.Name.Name != "stderrors") {
				t.Errorf("%v: the standard library's errors is imported as stderrors", set.Position(spec.Pos()))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && selector(call.Fun) == "fmt.Errorf" && pkgErrorsWould(call.Args[0]) {
				t.Errorf("%v: fmt.Errorf, where errors.Errorf or errors.WithMessage would do", set.Position(n.Pos()))
			}
			return true
		})
	}
}

// pkgErrorsWould says whether a format of fmt.Errorf wraps nothing, or one error behind a text. A format that a caller
// gives may wrap anyhow.
func pkgErrorsWould(format ast.Expr) bool {
	literal, ok := format.(*ast.BasicLit)
	if !ok {
		return false
	}
	text, _ := strconv.Unquote(literal.Value)
	wraps := strings.Count(text, "%w")
	return wraps == 0 || wraps == 1 && strings.HasSuffix(text, ": %w")
}

// TestDocListsExamples: the doc.go of each public package lists its Example functions, in order.
func TestDocListsExamples(t *testing.T) {
	for _, dir := range []string{"verbs", "qpstate", "oob", "rc", "rnet", "softroce"} {
		var have []string
		for _, name := range goFiles(t) {
			if filepath.ToSlash(filepath.Dir(name)) == dir && strings.HasSuffix(name, "_test.go") {
				have = append(have, found(read(t, name), regexp.MustCompile(`(?m)^func (Example\w*)\(\)`))...)
			}
		}
		slices.Sort(have)
		if got := found(read(t, dir+"/doc.go"), regexp.MustCompile(`(?m)^//\t(Example\w*)  `)); !slices.Equal(got, have) || len(have) == 0 {
			t.Errorf("%s/doc.go lists the examples\n%q, the package has\n%q", dir, got, have)
		}
	}
}

// TestThreatsHaveTests looks up each test, or file of CI, that SECURITY.md names.
func TestThreatsHaveTests(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "SECURITY.md"), "## Threats")
	rows, named := 0, regexp.MustCompile("`([a-z0-9/]+)`((?: (?:Test|Fuzz)\\w+,?)+)")
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| who") {
			continue
		}
		rows++
		cell := strings.TrimSpace(strings.Split(line, "|")[4])
		tests := named.FindAllStringSubmatch(cell, -1)
		if len(tests) == 0 { // then it names a file, such as CI's
			read(t, cell)
		}
		for _, m := range tests {
			sources := ""
			for _, name := range goFiles(t) {
				if filepath.ToSlash(filepath.Dir(name)) == m[1] && strings.HasSuffix(name, "_test.go") {
					sources += read(t, name)
				}
			}
			for name := range strings.FieldsSeq(strings.ReplaceAll(m[2], ",", " ")) {
				if !strings.Contains(sources, "\nfunc "+name+"(") {
					t.Errorf("package %s has no %s", m[1], name)
				}
			}
		}
	}
	if rows < 10 {
		t.Errorf("only %d threats were read", rows)
	}
}

// goFiles returns the module's files in Go, as paths from its root.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if name = filepath.ToSlash(name); entry.IsDir() && name != "." {
			if base := entry.Name(); name == "out" || base == "node_modules" || base == "testdata" || base[0] == '.' {
				return fs.SkipDir
			}
		}
		if strings.HasSuffix(name, ".go") {
			files = append(files, name)
		}
		return err
	})
	if err != nil || len(files) < 800 {
		t.Fatalf("%d files in Go, %v", len(files), err)
	}
	return files
}

func parse(t *testing.T, name string) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return set, file
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found returns what the pattern's group matches.
func found(text string, pattern *regexp.Regexp) (groups []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		groups = append(groups, m[1])
	}
	return groups
}
