package main

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEveryNameIsDocumented checks the public packages. Each exported name needs a
// comment, including constants, fields and methods of interfaces. Each function of
// libibverbs that the C code calls needs an Implements: paragraph with its whole
// prototype, at the end of a comment.
func TestEveryNameIsDocumented(t *testing.T) {
	const root = "../../.."
	for _, dir := range []string{"verbs", "rc", "qpstate", "oob", "softroce"} {
		d := readDocs(t, filepath.Join(root, dir))
		if d.names == 0 {
			t.Errorf("%s: no exported name was found", dir)
		}
		for _, fault := range d.faults {
			t.Error(fault)
		}
		if dir != "verbs" {
			continue
		}
		called := calledByC(t, filepath.Join(root, dir))
		if len(called) < 50 {
			t.Errorf("the C code calls only %v", called)
		}
		for _, name := range called {
			if !d.implemented[name] {
				t.Errorf("the C code calls %s, but no comment of an exported name has it in an Implements: line", name)
			}
		}
	}
}

// TestEveryObjectHasAnExample checks that each type of verbs with a Close has an example
// with a checked output.
func TestEveryObjectHasAnExample(t *testing.T) {
	const dir = "../../../verbs"
	examples := make(map[string]bool)
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tests {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range doc.Examples(file) {
			of, _, _ := strings.Cut(e.Name, "_")
			examples[of] = examples[of] || e.Output != ""
		}
	}
	objects := readDocs(t, dir).closers
	if len(objects) < 9 {
		t.Errorf("only %v have a Close", objects)
	}
	for _, name := range objects {
		if !examples[name] {
			t.Errorf("%s has no example", name)
		}
	}
}

// TestFaultsAreFound checks that each kind of fault is reported.
func TestFaultsAreFound(t *testing.T) {
	for fault, code := range map[string]string{
		"the package has no comment":                    "package x\n",
		"F has no comment":                              "func F() {}",
		"T.M has no comment":                            "// T is.\ntype T int\nfunc (T) M() {}",
		"P.M has no comment":                            "// P is.\ntype P[A any] struct{}\nfunc (p *P[A]) M() {}",
		"T has no comment":                              "type T int",
		"T.Field has no comment":                        "// T is.\ntype T struct { Field int }",
		"T.Other has no comment":                        "// T is.\ntype T struct {\n Field int // is one\n Other int\n}",
		"I.M has no comment":                            "// I is.\ntype I interface { M() }",
		"C has no comment":                              "// Of a kind.\nconst (\n B = 1 // is one\n C = 2\n)",
		"V has no comment":                              "var V int",
		"the comment of F does not begin with the name": "// Does something.\nfunc F() {}",
		"F: Implements: is not the last paragraph":      "// F is.\n//\n// Implements: int ibv_f(void)\n//\n// More.\nfunc F() {}",
		"F: Implements: is not a separate paragraph":    "// F is.\n// Implements: int ibv_f(void)\nfunc F() {}",
		"F: ibv_f has no prototype":                     "// F is.\n//\n// Implements: int ibv_e(int a), ibv_f, ibv_g(void)\nfunc F() {}",
		"F: ibv_g has no prototype":                     "// F is.\n//\n// Implements: int ibv_e(int a), ibv_f, ibv_g(void)\nfunc F() {}",
		"f is not exported, but has an Implements:":     "// f is.\n//\n// Implements: int ibv_f(void)\nfunc f() {}",
	} {
		if !strings.HasPrefix(code, "package") {
			code = "// Package x is.\npackage x\n" + code
		}
		if d := readSources(t, map[string]string{"x.go": code}); !slices.ContainsFunc(d.faults, func(f string) bool { return strings.Contains(f, fault) }) {
			t.Errorf("%q is not found in %q: %q", fault, code, d.faults)
		}
	}
	good := `// Package x is.
package x

// F is.
//
// Implements: int ibv_one(struct ibv_qp *qp, int a),
// struct ibv_x *ibv_two(void)
func F() {}

// Two of a kind.
const (
	// A is one.
	A = 1
	B = 2 // is the other
	c = 3
)

// T is.
type T struct {
	X, Y int // are numbers
	z    int
}

func (t *T) hidden() {}
func (h hidden) Shown() {}
`
	if d := readSources(t, map[string]string{"x.go": good}); len(d.faults) > 0 || d.names != 5 || !d.implemented["ibv_one"] || !d.implemented["ibv_two"] {
		t.Errorf("%+v", d)
	}
}

// docs are the doc comments of a package, and their faults.
type docs struct {
	fset        *token.FileSet
	names       int
	implemented map[string]bool
	closers     []string // types with a Close
	faults      []string
}

func readDocs(t *testing.T, dir string) docs {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	sources := make(map[string]string)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sources[filepath.Join(filepath.Base(dir), filepath.Base(file))] = string(text)
	}
	return readSources(t, sources)
}

// readSources reads files of all systems, so that a name of any system counts.
func readSources(t *testing.T, sources map[string]string) docs {
	t.Helper()
	d := docs{fset: token.NewFileSet(), implemented: make(map[string]bool)}
	about := false
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		file, err := parser.ParseFile(d.fset, name, sources[name], parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		about = about || file.Doc.Text() != ""
		for _, decl := range file.Decls {
			switch decl := decl.(type) {
			case *ast.FuncDecl:
				d.function(decl)
			case *ast.GenDecl:
				d.group(decl)
			}
		}
	}
	if !about {
		d.faults = append(d.faults, "the package has no comment")
	}
	return d
}

func (d *docs) fault(at ast.Node, format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf("%v: ", d.fset.Position(at.Pos()))+fmt.Sprintf(format, args...))
}

func (d *docs) function(f *ast.FuncDecl) {
	name, exported := f.Name.Name, f.Name.IsExported()
	if f.Recv != nil {
		of := receiver(f.Recv.List[0].Type)
		if exported = exported && ast.IsExported(of); exported && name == "Close" {
			d.closers = append(d.closers, of)
		}
		name = of + "." + name
	}
	if exported {
		d.named(f, name, f.Name.Name, f.Doc)
	} else if strings.Contains(f.Doc.Text(), "Implements:") {
		d.fault(f, "%s is not exported, but has an Implements:", name)
	}
}

// receiver returns the name of the type in T, *T, T[A] and T[A, B].
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// group checks a declaration of types, constants or variables. The comment of the whole
// declaration counts only if it declares a single name.
func (d *docs) group(g *ast.GenDecl) {
	for _, spec := range g.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			if !spec.Name.IsExported() {
				continue
			}
			group := spec.Doc
			if !g.Lparen.IsValid() {
				group = g.Doc
			}
			d.named(spec, spec.Name.Name, spec.Name.Name, group)
			d.members(spec)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				if !name.IsExported() {
					continue
				}
				if d.names++; spec.Doc.Text()+spec.Comment.Text() == "" && (g.Lparen.IsValid() || g.Doc.Text() == "") {
					d.fault(name, "%s has no comment", name.Name)
				}
			}
		}
	}
}

// members checks the fields of a struct and the methods of an interface.
func (d *docs) members(spec *ast.TypeSpec) {
	var fields *ast.FieldList
	switch of := spec.Type.(type) {
	case *ast.StructType:
		fields = of.Fields
	case *ast.InterfaceType:
		fields = of.Methods
	default:
		return
	}
	for _, f := range fields.List {
		names := f.Names
		if len(names) == 0 { // embedded
			names = []*ast.Ident{{NamePos: f.Pos(), Name: receiver(f.Type)}}
		}
		if names = slices.DeleteFunc(names, func(n *ast.Ident) bool { return !n.IsExported() }); len(names) == 0 {
			continue
		}
		if d.names++; f.Doc.Text()+f.Comment.Text() == "" {
			d.fault(f, "%s.%s has no comment", spec.Name.Name, names[0].Name)
		}
	}
}

// named checks the comment of an exported function or type.
func (d *docs) named(at ast.Node, name, begins string, group *ast.CommentGroup) {
	d.names++
	text := group.Text()
	if text == "" {
		d.fault(at, "%s has no comment", name)
		return
	}
	if !strings.HasPrefix(text, begins+" ") {
		d.fault(at, "the comment of %s does not begin with the name", name)
	}
	if !strings.Contains(text, "Implements:") {
		return
	}
	var p comment.Parser
	blocks := p.Parse(text).Content
	for i, block := range blocks {
		switch text := oneLine(block); {
		case !strings.Contains(text, "Implements:"):
		case !strings.HasPrefix(text, "Implements: "):
			d.fault(at, "%s: Implements: is not a separate paragraph", name)
		case i != len(blocks)-1:
			d.fault(at, "%s: Implements: is not the last paragraph", name)
		default:
			d.prototypes(at, name, text)
		}
	}
}

func oneLine(b comment.Block) string {
	var p comment.Printer
	return strings.Join(strings.Fields(string(p.Text(&comment.Doc{Content: []comment.Block{b}}))), " ")
}

// prototype matches a C function's type, name and parameters.
var prototype = regexp.MustCompile(`\w[ *]+(ibv_\w+)\([^()]+\)`)

// prototypes records the functions that a paragraph has whole prototypes of, and reports
// the others.
func (d *docs) prototypes(at ast.Node, name, paragraph string) {
	for _, m := range prototype.FindAllStringSubmatch(paragraph, -1) {
		d.implemented[m[1]] = true
	}
	rest := prototype.ReplaceAllString(paragraph, "")
	for _, bare := range regexp.MustCompile(`ibv_\w+`).FindAllString(rest, -1) {
		if bare != "ibv_" && !strings.Contains(rest, "struct "+bare) && !strings.Contains(rest, "enum "+bare) {
			d.fault(at, "%s: %s has no prototype", name, bare)
		}
	}
}

// calledByC returns the functions of libibverbs that the C code calls.
func calledByC(t *testing.T, dir string) []string {
	t.Helper()
	called := make(map[string]bool)
	for _, pattern := range []string{"ibv_*.h", "ibv_*.go"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			call := regexp.MustCompile(`\b(ibv_\w+)\(`)
			if strings.HasSuffix(file, ".go") {
				call = regexp.MustCompile(`\bC\.(ibv_\w+)\(`)
			}
			for _, m := range call.FindAllStringSubmatch(comments.ReplaceAllString(string(text), " "), -1) {
				called[m[1]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(called))
}
