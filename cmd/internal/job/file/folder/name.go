// The names that a client's file may have.

package folder

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// maxName is the maximum length of a name in bytes. A file system may allow less.
const maxName = 255

// CheckName returns an error unless name is plain:
//
//   - It has 1 to 255 bytes and no slash, so the file stays in the folder.
//   - It does not begin with a dot. This excludes ".", ".." and hidden files such as
//     .bashrc.
//   - It does not begin with a dash, so that rm * does not read it as an option.
//   - It is UTF-8 and consists of visible characters. Spaces are allowed in the middle.
//
// CheckName does not check whether the name is in use.
func CheckName(name string) error {
	wrong := func(why, try string) error {
		return errors.Errorf("the file name %q %s; try: %s", abridged(name), why, try)
	}
	switch {
	case name == "":
		return wrong("is empty", "a name")
	case len(name) > maxName:
		return wrong(fmt.Sprintf("has %d bytes", len(name)), fmt.Sprintf("at most %d", maxName))
	case strings.Contains(name, "/"):
		return wrong("is a path", "a name without slashes")
	case strings.HasPrefix(name, "."):
		return wrong("begins with a dot", "a name that is not hidden")
	case strings.HasPrefix(name, "-"):
		return wrong("begins with a dash, like an option", "another name")
	case !utf8.ValidString(name):
		return wrong("is not UTF-8", "another name")
	case strings.TrimSpace(name) != name:
		return wrong("begins or ends with a space", "a name without it")
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(name[i:])
		return wrong(fmt.Sprintf("has the invisible character %U", r), "a name without it")
	}
	return nil
}

func abridged(name string) string {
	if len(name) > maxName {
		return name[:maxName/8] + "…"
	}
	return name
}
