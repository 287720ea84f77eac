package event

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// row is what a line of docs/record.md says of a kind.
type row struct{ name, path, verb string }

// anyVerb stands for any verb.
const anyVerb = "any"

// TestRecordPageHasAllKinds compares the lists of docs/record.md with the code.
func TestRecordPageHasAllKinds(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "record.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n### The kinds of events\n")
	section, _, _ = strings.Cut(section, "\n## ")
	code := regexp.MustCompile("`([^`]+)`")
	var documented []row
	path := ""
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "#### ") {
			path = ""
			if m := code.FindStringSubmatch(line); m != nil {
				path = m[1]
			}
		}
		item, is := strings.CutPrefix(line, "- ")
		if !is {
			continue
		}
		head := item[:strings.IndexAny(item, ",:\n")] // the event and its verb
		names := code.FindAllStringSubmatch(head, -1)
		r := row{name: names[0][1], path: path}
		if strings.HasSuffix(head, " any verb") {
			r.verb = anyVerb
		} else if len(names) == 2 {
			r.verb = names[1][1]
		}
		documented = append(documented, r)
	}
	declared := slices.Collect(maps.Values(declaredKinds(t)))
	for _, r := range declared {
		if !slices.Contains(documented, r) {
			t.Errorf("docs/record.md has no line of %q", r)
		}
	}
	for i, r := range documented {
		if !slices.Contains(declared, r) || slices.Contains(documented[:i], r) {
			t.Errorf("the line of %q in docs/record.md is of no kind, or there twice", r)
		}
	}
}

// TestKindsAreNamedOnce looks for the names of kinds in the rest of the module's code, and
// for kinds that nothing uses.
func TestKindsAreNamedOnce(t *testing.T) {
	kinds := declaredKinds(t)
	names := map[string]bool{}
	for _, k := range kinds {
		names[k.name] = true
	}
	delete(names, Unkinded.Name()) // a word
	used := map[string]bool{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch rel, _ := filepath.Rel(root, path); {
		case err != nil:
			return err
		case d.IsDir() && (rel == "internal/event" || rel == "test" || strings.HasPrefix(d.Name(), ".git")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "event" {
					used[n.Sel.Name] = true
				}
			case *ast.BasicLit:
				text, _ := strconv.Unquote(n.Value)
				if n.Kind == token.STRING && names[text] {
					t.Errorf("%v: %s is the name of a kind; use the kind", files.Position(n.Pos()), n.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range kinds {
		if !used[name] {
			t.Errorf("nothing logs or shows %s", name)
		}
	}
}

// declaredKinds reads the package's source: its variables of the types Kind and ByVerb.
func declaredKinds(t *testing.T) map[string]row {
	t.Helper()
	constants := map[string]string{}
	kinds := map[string]row{}
	text := func(e ast.Expr) string {
		if literal, ok := e.(*ast.BasicLit); ok {
			value, _ := strconv.Unquote(literal.Value)
			return value
		}
		value, ok := constants[e.(*ast.Ident).Name]
		if !ok {
			t.Fatalf("%v is not a constant of this package", e)
		}
		return value
	}
	for _, name := range []string{"event.go", "kinds.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				switch value := v.Values[0].(type) {
				case *ast.BasicLit:
					constants[v.Names[0].Name] = text(value)
				case *ast.CompositeLit:
					k := row{text(value.Elts[0]), text(value.Elts[1]), anyVerb}
					if len(value.Elts) == 3 {
						k.verb = text(value.Elts[2])
					}
					kinds[v.Names[0].Name] = k
				}
			}
		}
	}
	if len(kinds) < 60 {
		t.Fatalf("%d kinds", len(kinds))
	}
	return kinds
}

// A record has the kind's attributes, those that it has, before its own.
func TestRecordBeginsWithItsKind(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, c := range []struct {
		log  func(*slog.Logger)
		want string
	}{
		{func(l *slog.Logger) { QPTransition.Log(l, "INIT→RTR", slog.Int("n", 1)) },
			`level=INFO msg=INIT→RTR event=qp.transition verb=ibv_modify_qp path=control n=1`},
		{func(l *slog.Logger) { RegionMade.Log(l, "register") }, `level=INFO msg=register event=object.made verb=ibv_reg_mr path=control`},
		{func(l *slog.Logger) { RecvPosted.Log(l, "post") }, `level=INFO msg=post event=wr.posted verb=ibv_post_recv path=data`},
		{func(l *slog.Logger) { MessageSent.LogAt(slog.LevelWarn, l, "sent") }, `level=WARN msg=sent event=message.sent path=data`},
		{func(l *slog.Logger) { RunFailed.LogAt(slog.LevelError, l, "failed") }, `level=ERROR msg=failed event=run.failed`},
		{func(l *slog.Logger) { ObjectFreed.By("ibv_dereg_mr").Log(l, "free") }, `level=INFO msg=free event=object.freed verb=ibv_dereg_mr path=control`},
		{func(l *slog.Logger) { TCPMessage.LogPast(at, slog.LevelInfo, l, "sent hello") },
			`time=2026-01-02T03:04:05.000Z level=INFO msg="sent hello" event=oob.message verb=tcp path=control`},
		{func(l *slog.Logger) { QPDump.LogAt(slog.LevelDebug, l, "QP:") }, ``},
		{func(l *slog.Logger) { TCPMessage.LogPast(at, LevelWaits, l, "sent note") }, ``},
	} {
		var out strings.Builder
		c.log(slog.New(slog.NewTextHandler(&out, nil)))
		got := strings.TrimSuffix(out.String(), "\n")
		if !strings.HasPrefix(c.want, "time=") {
			_, got, _ = strings.Cut(got, " ")
		}
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// A record allocates the slice of its attributes, and what the handler allocates.
func BenchmarkLog(b *testing.B) {
	for name, handler := range map[string]slog.Handler{"json": slog.NewJSONHandler(io.Discard, nil), "discarded": slog.DiscardHandler} {
		b.Run(name, func(b *testing.B) {
			log := slog.New(handler)
			b.ReportAllocs()
			for b.Loop() {
				WRCompleted.Log(log, "completion", slog.Uint64("wr_id", 7), slog.String("status", "IBV_WC_SUCCESS"))
			}
		})
	}
}
