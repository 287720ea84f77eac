//go:build linux && cgo && !nolibibverbs

package verbs

import (
	"debug/elf"
	stderrors "errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// A binary must start on machines without libibverbs. So it must not need the library, and it must
// not offer functions with its names to the library's plug-ins.
func TestBinaryIsNotLinkedWithLibibverbs(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := elf.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	needed, err := binary.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, library := range needed {
		if strings.Contains(library, "ibverbs") {
			t.Errorf("this binary needs %s", library)
		}
	}
	symbols, err := binary.DynamicSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.Contains(s.Name, "ibv_") {
			t.Errorf("this binary shows %s to the libraries that it loads", s.Name)
		}
	}
}

// If libibverbs cannot be loaded, Devices returns the reason and a remedy.
func TestWithoutLibibverbs(t *testing.T) {
	const inside = "RAWVERBS_TEST_WITHOUT_LIBIBVERBS"
	if os.Getenv(inside) != "" {
		_, err := ibvProvider{}.Devices()
		if err == nil || !errors.Is(err, stderrors.ErrUnsupported) {
			t.Fatalf("Devices: %v", err)
		}
		for _, want := range []string{"libibverbs cannot be loaded", "libibverbs.so.1", "try: install"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if _, err := (ibvProvider{}).Open("rxe0"); !errors.Is(err, stderrors.ErrUnsupported) {
			t.Errorf("Open: %v", err)
		}
		return
	}
	// An empty file with the library's name, in the first folder searched, is like a missing
	// library.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "libibverbs.so.1"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	again := exec.Command(os.Args[0], "-test.run", "^TestWithoutLibibverbs$", "-test.v")
	again.Env = append(os.Environ(), inside+"=1", "LD_LIBRARY_PATH="+dir)
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
}
