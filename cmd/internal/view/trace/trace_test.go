package trace

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

// tell logs one record of each shape to a handler.
func tell(h slog.Handler) {
	all := slog.New(h)
	log := all.With(slog.String("who", "server"))
	log.Info("RESET→INIT", "event", "qp.transition", "verb", "ibv_modify_qp", "path", "control", "from", "RESET", "mask", "0x39",
		"took", 1500*time.Microsecond, slog.Group("attr", slog.String("PORT", "1"), slog.String("PKEY_INDEX", "0")))
	all.With("who", "server/2").Info("message", "event", "message.received", "path", "data", "text", "evil\x1b[2J")
	log.Error("client failed", "error", "why")
	all.Error("client failed", "who", "server/7", "error", "why not")
	log.Info("received barrier \"done\"", "event", "oob.message", "sent", false, "name", "done", "bytes", 17)
	log.Warn("nothing has completed", "event", "bulk.stall", "path", "data", "bytes", 8)
	log.Error("no record", "event", "record.failed", "path", "info")
	log.Debug("not in a narration")
}

func TestNarration(t *testing.T) {
	var out bytes.Buffer
	tell(NewNarration(&out, slog.LevelInfo, 0))
	got := regexp.MustCompile(`\[\d\d:\d\d:\d\d\.\d{3} `).ReplaceAllString(out.String(), "[T ")
	want := `[T #0001 server] CONTROL RESET→INIT  mask=0x39 took=1.5ms  · ibv_modify_qp
              PORT=1 PKEY_INDEX=0
[T #0002 server/2] DATA    message  text="evil\x1b[2J"
[T #0003 server] ERROR   client failed  error=why
[T #0004 server/7] ERROR   client failed  error=why not
[T #0005 server] INFO    received barrier "done"  bytes=17
[T #0006 server] WARN    nothing has completed  bytes=8
[T #0007 server] ERROR   no record
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestNarrationFits: on a terminal no line is wider than that, and none loses a word.
func TestNarrationFits(t *testing.T) {
	for _, width := range []int{40, 60, 100} {
		var whole, out bytes.Buffer
		tell(NewNarration(&whole, slog.LevelInfo, 0))
		tell(NewNarration(&out, slog.LevelInfo, width))
		for line := range strings.Lines(out.String()) {
			if n := columns.Of(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns of %d: %s", n, width, line)
			}
		}
		words := regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}|\s+`)
		if got, want := words.ReplaceAllString(out.String(), ""), words.ReplaceAllString(whole.String(), ""); got != want {
			t.Errorf("width %d: got\n%s\nwant\n%s", width, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var out bytes.Buffer
	tell(NewJSON(&out, slog.LevelInfo))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 7 {
		t.Fatalf("%d lines", len(lines))
	}
	for _, line := range lines {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, key := range []string{"time", "level", "msg", "who"} {
			if _, ok := object[key]; !ok {
				t.Errorf("%s lacks %s", line, key)
			}
		}
	}
	for _, want := range []string{`"took_ns":1500000`, `"attr":{"PORT":"1","PKEY_INDEX":"0"}`, `"from":"RESET"`, `"verb":"ibv_modify_qp"`} {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%s lacks %s", lines[0], want)
		}
	}
}
