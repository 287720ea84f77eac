package dependencies

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestErrorsAreMadeOneWay looks through the libraries and the commands: errors is
// github.com/pkg/errors, and fmt.Errorf wraps in a way that pkg/errors cannot.
func TestErrorsAreMadeOneWay(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case d.IsDir() && (rel == "test" || rel == "examples" || rel == "tools" || strings.HasPrefix(d.Name(), ".git")):
			return fs.SkipDir // programs of their own
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if spec.Path.Value == `"errors"` && (spec.Name == nil || spec.Name.Name != "stderrors") {
				t.Errorf("%v: the standard library's errors is imported as stderrors", files.Position(spec.Pos()))
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && pkgErrorsWould(call) {
				t.Errorf("%v: fmt.Errorf, where errors.Errorf or errors.WithMessage would do", files.Position(n.Pos()))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pkgErrorsWould says whether a call of fmt.Errorf wraps nothing, or one error behind a text.
func pkgErrorsWould(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || f.Sel.Name != "Errorf" {
		return false
	}
	if x, ok := f.X.(*ast.Ident); !ok || x.Name != "fmt" {
		return false
	}
	literal, ok := call.Args[0].(*ast.BasicLit)
	if !ok {
		return false // a format that a caller gives may wrap anyhow
	}
	format, _ := strconv.Unquote(literal.Value)
	return strings.Count(format, "%w") == 0 || strings.Count(format, "%w") == 1 && strings.HasSuffix(format, ": %w")
}
