package kit

import (
	"strings"
	"testing"
)

// TestLoggedParams checks that a client's parameters cannot pass for other parts of a log line, and that a reader of the
// log gets no key.
func TestLoggedParams(t *testing.T) {
	long := strings.Repeat("x", 64<<10)
	logged := Params{
		ParamSize: "64K", "file_name": "a-b_c.txt", "prefix": "", ParamFileKey: "SECRET",
		"text": "x] error=none", "line": "x\n[12:00:00 server] fine", "a b=c": "1", "long": long, "paint": "\x1b[2J",
	}.Logged()
	for key, want := range map[string]string{
		ParamSize: "64K", "file_name": "a-b_c.txt", "prefix": `""`, "text": `"x] error=none"`, "line": `"x\n[12:00:00 server] fine"`,
		`"a b=c"`: "1", "long": `"` + long[:shownParam] + `"…`, "paint": `"\x1b[2J"`,
	} {
		if logged[key] != want {
			t.Errorf("%s: %.300q, want %.300q", key, logged[key], want)
		}
		delete(logged, key)
	}
	if len(logged) > 0 {
		t.Errorf("also logged: %q", logged)
	}
}
