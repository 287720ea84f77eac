// Command systems checks the types of all packages and their tests as other systems see them.
//
//	go run ./test/systems [GOOS/GOARCH...]
//
// The tests run on linux/amd64 and on js/wasm; docs/setup.md has the other systems, which are the default.
//
// A build for another system compiles the standard library for it first, which takes a minute for each
// on two processors. Type errors are all that such a build finds. This command reads the sources in place of
// compiled packages, and of the standard library and of other modules only the declarations, so a system takes
// seconds.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	systems := os.Args[1:]
	if len(systems) == 0 {
		systems = []string{"linux/amd64", "linux/386", "linux/arm", "linux/arm64", "linux/s390x", "linux/riscv64", "darwin/arm64", "freebsd/amd64"}
	}
	failures := make([]error, len(systems))
	var wg sync.WaitGroup
	for i, system := range systems {
		wg.Go(func() { failures[i] = check(system) })
	}
	wg.Wait()
	status := 0
	for i, err := range failures {
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", systems[i], err)
			status = 1
		}
	}
	os.Exit(status)
}

// unit is a package of go list.
type unit struct {
	ImportPath, Dir string
	GoFiles         []string
	ImportMap       map[string]string
	Module          *struct{ Main bool }
	Error           *struct{ Err string }
}

// check checks the packages of the module in the current directory for a system.
func check(system string) error {
	goos, arch, _ := strings.Cut(system, "/")
	list := exec.CommandContext(context.Background(), "go", "list", "-deps", "-test", "-json=ImportPath,Dir,GoFiles,ImportMap,Module,Error", "./...")
	list.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return err
	}
	if err := list.Start(); err != nil {
		return err
	}
	c := checker{sizes: types.SizesFor("gc", arch), checked: map[string]*types.Package{"unsafe": types.Unsafe}}
	if c.sizes == nil {
		return fmt.Errorf("no such architecture: %q", arch)
	}
	units := json.NewDecoder(out)
	for {
		var u unit
		if err := units.Decode(&u); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		c.unit(u) // go list prints a package after those that it imports
	}
	if err := list.Wait(); err != nil {
		return fmt.Errorf("%v: %w", list, err)
	}
	if len(c.complaints) > 0 {
		return fmt.Errorf("%d errors:\n%s", len(c.complaints), strings.Join(c.complaints, "\n"))
	}
	return nil
}

type checker struct {
	sizes      types.Sizes
	checked    map[string]*types.Package
	complaints []string
}

func (c *checker) complain(err error) { c.complaints = append(c.complaints, err.Error()) }

func (c *checker) unit(u unit) {
	if u.ImportPath == "unsafe" || strings.HasSuffix(u.ImportPath, ".test") { // go test generates the latter
		return
	}
	if u.Error != nil {
		c.complain(fmt.Errorf("%s: %s", u.ImportPath, u.Error.Err))
	}
	own := u.Module != nil && u.Module.Main
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range u.GoFiles {
		file, err := parser.ParseFile(set, filepath.Join(u.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			c.complain(err)
			return
		}
		files = append(files, file)
	}
	config := types.Config{Sizes: c.sizes, IgnoreFuncBodies: !own, Importer: imports{c, u.ImportMap}}
	if own {
		config.Error = c.complain
	} else {
		config.Error = func(error) {} // of other modules the declarations suffice
	}
	path, _, _ := strings.Cut(u.ImportPath, " ")
	pkg, _ := config.Check(path, set, files, nil)
	c.checked[u.ImportPath] = pkg
}

// imports finds the packages that one package imports.
type imports struct {
	c       *checker
	renamed map[string]string
}

// Import returns the package with this path in an import declaration.
func (i imports) Import(path string) (*types.Package, error) {
	if to, ok := i.renamed[path]; ok {
		path = to
	}
	if pkg := i.c.checked[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("no package %s", path)
}
