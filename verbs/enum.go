// How enums print: by C name, or by number if there is no name, as for values from a newer
// kernel.

package verbs

import (
	"fmt"
	"strings"
)

// cName returns prefix+names[v], or "kind(v)" for a value without a name.
func cName(prefix, kind string, v uint32, names ...string) string {
	if int(v) < len(names) && names[v] != "" {
		return prefix + names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

// cFlags joins the names of the bits set in v, lowest bit first. Bits without a name print as one
// hexadecimal number. No bits give "0".
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
