// Which names a stranger's file may have.

package folder

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// maxName is how many bytes a name has at most; a file system may allow fewer.
const maxName = 255

// CheckName refuses a name that is not a plain one:
//
//   - it has 1 to 255 bytes, and no slash, so that it stays in the folder; "." and
//     ".." fall under the next
//   - it does not begin with a dot (a hidden file such as .bashrc would surprise
//     the folder's owner) nor with a dash (which would be an option to rm *)
//   - it is UTF-8 of characters that can be seen, spaces only in the middle
//
// It may be in use already.
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
		return wrong("begins with a dash, as an option does", "another")
	case !utf8.ValidString(name):
		return wrong("is not UTF-8", "another")
	case strings.TrimSpace(name) != name:
		return wrong("begins or ends with a space", "a name without")
	}
	if i := strings.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		r, _ := utf8.DecodeRuneInString(name[i:])
		return wrong(fmt.Sprintf("has the character %U, which cannot be seen", r), "a name without")
	}
	return nil
}

func abridged(name string) string {
	if len(name) > maxName {
		return name[:maxName/8] + "…"
	}
	return name
}
