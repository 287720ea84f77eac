package run

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/oob"
)

// commandWords are words that mean something to the commands' users alone.
var commandWords = regexp.MustCompile(`rdma_server|rdma_client|--wire|--peer|same job|this job`)

// TestLibrariesDoNotSpeakOfTheCommands reads the texts in the code of what other
// programs import.
func TestLibrariesDoNotSpeakOfTheCommands(t *testing.T) {
	texts := 0
	for _, library := range []string{"oob", "rc", "verbs", "qpstate", "softroce"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", "..", library), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
					texts++
					if commandWords.MatchString(text.Value) {
						t.Errorf("%v: %s", files.Position(text.Pos()), text.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if texts < 1000 {
		t.Errorf("only %d texts were found", texts)
	}
}

// TestTheCommandsSayWhatToRun: what the library cannot know is added.
func TestTheCommandsSayWhatToRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	go func() {
		if nc, err := l.Accept(); err == nil {
			nc.Write([]byte("0000:000011:8f3a2b:00000000000000000000ffff7f000009\x00"))
			nc.Close()
		}
	}()
	conn, err := oob.Dial(t.Context(), address, oob.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, foreign := conn.Hello(t.Context(), oob.Hello{Role: oob.RoleClient})
	conn.Close()
	l.Close()
	_, refused := oob.Dial(t.Context(), address, oob.Options{})

	for _, test := range []struct {
		peer string
		err  error
		want string
	}{
		{native, refused, "is rdma_server running there?"},
		{"pingpong", refused, "is a server of --peer pingpong running there?"},
		{native, foreign, "--peer"},
		{native, errors.New("something else"), "something else"},
	} {
		got := inOurWords(test.peer, test.err)
		if !errors.Is(got, test.err) || !strings.HasPrefix(got.Error(), test.err.Error()) || !strings.HasSuffix(got.Error(), test.want) && !strings.Contains(got.Error(), test.want) {
			t.Errorf("%v\nbecame\n%v\nwant %q", test.err, got, test.want)
		}
		if strings.Contains(test.err.Error(), test.want) && test.want != "something else" {
			t.Errorf("the library says %q itself: %v", test.want, test.err)
		}
	}
}
