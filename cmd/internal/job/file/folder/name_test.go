package folder

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckName(t *testing.T) {
	plain := []string{
		"a", "file.txt", "grüße.txt", "你好.bin", "two words", "a..b", "trailing.", `back\slash`, "C:", "*", "~", "$HOME",
		"a-b", "🌍", strings.Repeat("x", 255), "nul", "per%cent", "quote'\"",
	}
	for _, name := range plain {
		if err := CheckName(name); err != nil {
			t.Error(err)
		}
	}
	refused := map[string]string{
		"":                         "is empty",
		".":                        "begins with a dot",
		"..":                       "begins with a dot",
		"../x":                     "is a path",
		"/etc/passwd":              "is a path",
		"a/b":                      "is a path",
		"x/":                       "is a path",
		"a/../b":                   "is a path",
		".bashrc":                  "begins with a dot",
		"...":                      "begins with a dot",
		"-rf":                      "begins with a dash",
		"a\x00b":                   "U+0000",
		"a\nb":                     "U+000A",
		"a\x1b[2J":                 "U+001B",
		"a\x7f":                    "U+007F",
		"photo\u202egpj.exe":       "U+202E",
		"zero\u200bwidth":          "U+200B",
		"no\u00a0break":            "U+00A0",
		"line\u2028s":              "U+2028",
		"\xff":                     "is not UTF-8",
		"\xc0\xae\xc0\xae\xc0\xaf": "is not UTF-8", // an overlong ../
		" x":                       "a space",
		"x ":                       "a space",
		"x\n":                      "a space",
		" ":                        "a space",
		strings.Repeat("x", 256):   "has 256 bytes; try: at most 255",
	}
	for name, want := range refused {
		err := CheckName(name)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "; try: ") {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// FuzzCheckName checks that an accepted name creates exactly one file of that name in the
// folder, and that a refused name creates no file anywhere.
func FuzzCheckName(f *testing.F) {
	for _, name := range []string{"a", "", "..", "../x", "/etc/passwd", "a\x00", ".hidden", "-rf", "ü", "\xff", " x"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		above := t.TempDir()
		path := filepath.Join(above, "folder")
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		folder, err := Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		file := create(t, folder, "x")
		checked, committed := CheckName(name), file.Commit(name)
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		got := entries(t, path)
		if outside := entries(t, above); len(outside) != 1 {
			t.Errorf("%q: outside the folder there is %q", name, outside)
		}
		switch {
		case checked != nil && (committed == nil || len(got) != 0):
			t.Errorf("%q is refused, and the folder has %q: %v", name, got, committed)
		case checked == nil && (committed != nil || len(got) != 1 || got[0] != name):
			t.Errorf("%q is accepted, and the folder has %q: %v", name, got, committed)
		}
	})
}
