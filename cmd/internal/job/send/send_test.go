package send

import (
	"runtime"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
)

// TestReply checks that the reply fits, breaks no character, and is no copy of the client's text: the
// budget of memory counts only the two buffers.
func TestReply(t *testing.T) {
	large := []byte(strings.Repeat("x", 1<<20))
	for _, test := range []struct {
		room       int
		text, want string
	}{
		{100, "hello", "the server received 5 bytes: hello"},
		{31, "hello", "the server received 5 bytes: he"},
		{31, "1é", "the server received 3 bytes: 1"},
		{10, "hello", "the server"},
	} {
		if got := string(reply(make([]byte, test.room), []byte(test.text))); got != test.want {
			t.Errorf("%q in %d bytes: %q, want %q", test.text, test.room, got, test.want)
		}
	}
	room := make([]byte, len(large))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := len(kit.Beginning(reply(room, large)))
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > uint64(len(large)/2) || n >= len(large) {
		t.Errorf("%d bytes allocated, %d bytes logged", bytes, n)
	}
}
