// Package coverage tests the doc comments of the public packages, and which functions of libibverbs package verbs
// wraps. This prints each function with the file that wraps it, or with the reason why none does:
//
//	go test -v -run Libibverbs ./verbs/internal/coverage
package coverage

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var (
	root      = os.DirFS("../../..")
	comment   = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
	directive = regexp.MustCompile(`(?m)^[ \t]*#(?:[^\n\\]|\\\n|\\.)*|extern\s+"C"\s*\{`)
	braces    = regexp.MustCompile(`\{[^{}]*\}`)
	declared  = regexp.MustCompile(`\b(___)?(ibv_[a-z0-9_]+)\s*\(`)
	call      = regexp.MustCompile(`\b(ibv_\w+)\(`)
	prototype = regexp.MustCompile(`\w[ *]+(ibv_\w+)\([^()]+\)`)
	mention   = regexp.MustCompile(`(?:(?:struct|enum) )?\bibv_\w+`)
	refusal   = regexp.MustCompile(`(?m)^(ibv_[\w ]+): (\S.*(?:\n[ \t]+\S.*)*)\n|^#.*\n`)
	ignored   = regexp.MustCompile(`\b(?:static|inline|extern)\b|__attribute.*|\s+`)
)

// TestEveryNameIsDocumented: each exported name has a comment, also a constant, a field and a method of an interface. The
// linter revive checks what else a comment of a type and of a function needs.
func TestEveryNameIsDocumented(t *testing.T) {
	for _, dir := range []string{"qpstate", "oob", "rc", "softroce", "verbs"} {
		names := 0
		eachName(dir, func(where, name, text string) {
			if names++; text == "" && ast.IsExported(name) {
				t.Errorf("%s: %s has no comment", where, name)
			}
		})
		if names < 50 {
			t.Errorf("%s has only %d names", dir, names)
		}
	}
}

// TestEveryObjectHasAnExample: each type of verbs with a Close has an example with a checked output.
func TestEveryObjectHasAnExample(t *testing.T) {
	objects := map[string]bool{}
	for _, file := range must(fs.Glob(root, "verbs/*.go")) {
		for _, m := range regexp.MustCompile(`(?m)^func \(\w+ \*?([A-Z]\w*)\) Close\(`).FindAllStringSubmatch(read(file), -1) {
			objects[m[1]] = true
		}
	}
	for _, file := range must(fs.Glob(root, "verbs/*_test.go")) {
		for _, e := range doc.Examples(must(parser.ParseFile(token.NewFileSet(), file, read(file), parser.ParseComments))) {
			if of, _, _ := strings.Cut(e.Name, "_"); e.Output != "" && objects[of] {
				objects[of] = false
			}
		}
	}
	for of, lacks := range objects {
		if lacks {
			t.Errorf("%s has a Close, but no example with a checked output", of)
		}
	}
	if len(objects) < 9 {
		t.Errorf("only %v have a Close", objects)
	}
}

// TestLibibverbs: each function that the C code calls has its prototype at the end of the comment of an exported name,
// behind "Implements:". The functions of libibverbs' header are wrapped so, with the header's prototype, or refused by
// refused.txt; none is both. A build without cgo needs no header.
func TestLibibverbs(t *testing.T) {
	wrapped, refused := wrapped(t), map[string]string{}
	for _, file := range append(must(fs.Glob(root, "verbs/ibv_*.h")), must(fs.Glob(root, "verbs/ibv_*.go"))...) {
		for _, m := range call.FindAllStringSubmatch(comment.ReplaceAllString(read(file), " "), -1) {
			if wrapped[m[1]] == "" {
				t.Errorf("%s calls %s, but no comment of an exported name implements it", file, m[1])
			}
		}
	}
	list := read("verbs/refused.txt")
	for _, m := range refusal.FindAllStringSubmatch(list, -1) {
		for name := range strings.FieldsSeq(m[1]) {
			if refused[name] += strings.Join(strings.Fields(m[2]), " "); wrapped[name] != "" {
				t.Errorf("refused.txt has %s, which is wrapped", name)
			}
		}
	}
	if rest := strings.TrimSpace(refusal.ReplaceAllString(list, "")); rest != "" {
		t.Errorf("refused.txt has %q, want NAME…: REASON", rest)
	}
	if runtime.GOOS != "linux" || !build.Default.CgoEnabled {
		return
	}
	functions, missing := functions(string(must(os.ReadFile("/usr/include/infiniband/verbs.h")))), 0
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		switch {
		case wrapped[name] != "" && !strings.Contains(wrapped[name], functions[name]):
			t.Errorf("%s is another function in verbs.h: %s", name, functions[name])
		case wrapped[name]+refused[name] == "":
			missing++
			t.Logf("missing  %s", name)
		default:
			file, _, _ := strings.Cut(wrapped[name], ":")
			t.Logf("%-36s %s%s", name, file, refused[name])
		}
		delete(wrapped, name)
		delete(refused, name)
	}
	if len(wrapped)+len(refused) > 0 {
		t.Errorf("verbs.h does not declare %v, %v", wrapped, refused)
	}
	const known = 155 // in libibverbs 44; a newer one may have functions that are missing here
	if t.Logf("%d functions, %d missing", len(functions), missing); len(functions)-missing < known {
		t.Errorf("%d are wrapped or refused, want %d", len(functions)-missing, known)
	}
}

// wrapped returns the functions that comments in verbs implement, with the places and the prototypes.
func wrapped(t *testing.T) map[string]string {
	found := map[string]string{}
	eachName("verbs", func(where, of, text string) {
		before, list, implements := strings.Cut(text, "Implements:")
		if list = strings.TrimSpace(list); !implements {
			return
		}
		if !ast.IsExported(of) || !strings.HasSuffix(before, "\n\n") || strings.Contains(list, "\n\n") {
			t.Errorf("%s: Implements: is not the last paragraph of an exported name's comment", where)
		}
		list = strings.ReplaceAll(list, "\n", " ")
		for _, m := range prototype.FindAllStringSubmatch(list, -1) {
			found[m[1]] += where + " " + plain(list) + "\n"
		}
		for _, bare := range mention.FindAllString(prototype.ReplaceAllString(list, ""), -1) {
			if strings.HasPrefix(bare, "ibv_") {
				t.Errorf("%s: %s has no prototype", where, bare)
			}
		}
	})
	return found
}

// eachName visits the names that a package declares on any system, with the comment of each. A group's comment counts for
// a group of one.
func eachName(dir string, visit func(where, name, text string)) {
	for _, path := range must(fs.Glob(root, dir+"/*.go")) {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		set, group := token.NewFileSet(), (*ast.CommentGroup)(nil)
		each := func(at ast.Node, name string, comments ...*ast.CommentGroup) {
			text := ""
			for _, c := range comments {
				text += c.Text()
			}
			visit(fmt.Sprint(set.Position(at.Pos())), name, text)
		}
		ast.Inspect(must(parser.ParseFile(set, path, read(path), parser.ParseComments)), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				name := n.Name.Name
				if n.Recv != nil && !ast.IsExported(last(n.Recv.List[0].Type)) {
					name = "hidden"
				}
				each(n, name, n.Doc)
				return false
			case *ast.GenDecl:
				if group = n.Doc; n.Lparen.IsValid() {
					group = nil
				}
			case *ast.ValueSpec:
				for _, name := range n.Names {
					each(name, name.Name, group, n.Doc, n.Comment)
				}
				return false
			case *ast.TypeSpec:
				each(n, n.Name.Name, group, n.Doc)
				_, isFunc := n.Type.(*ast.FuncType)
				n.TypeParams = nil
				return n.Name.IsExported() && !isFunc
			case *ast.Field:
				if n.Names == nil {
					each(n, last(n.Type), n.Doc, n.Comment)
				}
				for _, name := range n.Names {
					each(n, name.Name, n.Doc, n.Comment)
				}
				return false
			}
			return true
		})
	}
}

// last returns the name of a type without its package, its parameters and a star.
func last(e ast.Expr) string {
	name, _, _ := strings.Cut(types.ExprString(e), "[")
	return name[strings.LastIndexAny(name, "*.")+1:]
}

// functions returns the declarations of a header, without what is in braces. A macro NAME calls ___NAME if there is one.
func functions(header string) map[string]string {
	header = directive.ReplaceAllString(comment.ReplaceAllString(header, " "), " ")
	for braces.MatchString(header) {
		header = braces.ReplaceAllString(header, ";")
	}
	found := map[string]string{}
	for statement := range strings.SplitSeq(header, ";") {
		if m := declared.FindStringSubmatch(statement); m != nil && (m[1] != "" || found[m[2]] == "") {
			found[m[2]] = plain(strings.Replace(statement, "___"+m[2], m[2], 1))
		}
	}
	return found
}

// plain returns C code without storage classes, attributes and space.
func plain(c string) string { return ignored.ReplaceAllString(c, "") }

func read(file string) string { return string(must(fs.ReadFile(root, file))) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
