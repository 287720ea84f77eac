// Package misuse_test has programs with the mistakes that beginners make. Each ends in one
// clear error. docs/errors.md lists the errors as soft0 prints them.
//
// After a change: go test ./test/misuse -update
package misuse_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testdevice"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var update = flag.Bool("update", false, "write the errors into docs/errors.md")

// mistake is something that beginners do, and the programs that do it.
type mistake struct {
	name     string
	programs []program
}

// program ends in one error.
type program struct {
	name string // what the program does, for docs/errors.md
	run  func(*testing.T) error
	is   error // what errors.Is finds, or a failed status; nil: only the text is compared
}

// failed is a completion's status, for program.is.
type failed verbs.WCStatus

func (f failed) Error() string { return verbs.WCStatus(f).String() }

// matches reports whether err is, or has, what a program expects.
func (p program) matches(err error) bool {
	status, ok := p.is.(failed)
	if !ok {
		return p.is == nil || errors.Is(err, p.is)
	}
	var wc *verbs.WCError
	return errors.As(err, &wc) && wc.Status == verbs.WCStatus(status)
}

// TestEachMistakeIsOneClearError runs all programs and compares the errors with the page.
func TestEachMistakeIsOneClearError(t *testing.T) {
	var page strings.Builder
	for i, m := range mistakes {
		fmt.Fprintf(&page, "%d. **%s**\n\n    ```text\n", i+1, m.name)
		for _, p := range m.programs {
			t.Run(m.name+"/"+p.name, func(t *testing.T) {
				err := p.run(t)
				if err == nil {
					t.Fatal("no error")
				}
				t.Log(err)
				text := err.Error()
				if !p.matches(err) {
					t.Errorf("%v\nis not %v", err, p.is)
				}
				if tries := strings.Count(text, "; try: "); strings.Contains(text, "\n") || tries > 1 || tries == 0 && !advises(err) {
					t.Errorf("%q\nis not one line with one remedy", text)
				}
				fmt.Fprintf(&page, "    # %s\n    %s\n", p.name, hex.ReplaceAllString(text, "0x…"))
			})
		}
		page.WriteString("    ```\n\n")
	}
	if testdevice.Soft && !t.Failed() {
		comparePage(t, page.String())
	}
}

// advises reports whether the text of err has its advice without "try".
func advises(err error) bool {
	return errors.As(err, new(*verbs.WCError)) || errors.As(err, new(*rc.InFlightError))
}

// hex is a number that differs from run to run: an address, a key, a QPN.
var hex = regexp.MustCompile(`0x[0-9a-f]+`)

// comparePage compares what the programs print with the section of docs/errors.md, between
// its introduction and the next heading.
func comparePage(t *testing.T, got string) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "errors.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Ten common mistakes\n")
	_, list, ok2 := strings.Cut(section, "\n\n1. ")
	list, _, ok3 := strings.Cut(list, "## ")
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no list of ten mistakes", path)
	}
	if list = "1. " + list; list == got {
		return
	}
	if !*update {
		t.Fatalf("%s lists other errors (run with -update); the programs print\n%s", path, got)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), list, got, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
