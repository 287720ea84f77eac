// How an enum prints: by its C name, and by its number if it has none, so that
// a value from a newer kernel is shown, not lost.

package verbs

import (
	"fmt"
	"strings"
)

// cName is prefix+names[v], or "kind(v)" for a value without a name.
func cName(prefix, kind string, v uint32, names ...string) string {
	if int(v) < len(names) && names[v] != "" {
		return prefix + names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// cFlags joins the names of the bits set in v, lowest first; bits without a name
// print as one hexadecimal number, no bits as "0".
func cFlags(prefix string, v uint32, names ...string) string {
	var parts []string
	for i, name := range names {
		if bit := uint32(1) << i; v&bit != 0 && name != "" {
			parts, v = append(parts, prefix+name), v&^bit
		}
	}
	if v != 0 {
		parts = append(parts, fmt.Sprintf("%#x", v))
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, "|")
}
