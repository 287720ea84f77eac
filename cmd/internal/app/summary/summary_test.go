package summary

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
)

// TestSummary writes the events of a server with two clients, at the levels of --log summary and --quiet.
func TestSummary(t *testing.T) {
	for level, want := range map[slog.Level]string{
		slog.LevelInfo: `level=INFO msg="listening on [::]:1" address=[::]:1
level=WARN msg="the exchange is unauthenticated" address=[::]:1
level=INFO msg=client peer=10.0.0.2:5 job=send outcome=succeeded
level=ERROR msg=client peer=10.0.0.3:6 outcome=failed error="no \x1b[0m" omitted=2
`,
		slog.LevelWarn: `level=WARN msg="the exchange is unauthenticated" address=[::]:1
level=ERROR msg=client peer=10.0.0.3:6 outcome=failed error="no \x1b[0m" omitted=2
`,
	} {
		var out strings.Builder
		all := slog.New(New(&out, level))
		log := all.With(slog.String("who", "server"))
		event.PortQueried.Log(log, "port 1")
		event.ServerListening.Log(log, "listening on [::]:1", slog.String("address", "[::]:1"))
		event.ServerUnauthenticated.LogAt(slog.LevelWarn, log, "the exchange is unauthenticated", slog.String("address", "[::]:1"))
		one := all.With(slog.String("who", "server/1"))
		event.ClientAccepted.Log(one, "client connected by TCP", slog.String("peer", "10.0.0.2:5"))
		event.BulkStall.LogAt(slog.LevelWarn, one, "nothing has completed for over 1s")
		event.RunDone.Log(one, "done: the job succeeded", slog.String("peer", "10.0.0.2:5"), slog.String("job", "send"), slog.String("outcome", "succeeded"))
		event.ClientFailed.LogAt(slog.LevelError, all.With(slog.String("who", "server/2")), "client failed", slog.String("peer", "10.0.0.3:6"),
			slog.String("outcome", "failed"), slog.String("error", errors.New("no \x1b[0m").Error()), slog.Int("omitted", 2))
		var got strings.Builder
		for line := range strings.Lines(out.String()) {
			at, rest, _ := strings.Cut(line, " ")
			if !strings.HasPrefix(at, "time=20") {
				t.Errorf("no time: %s", line)
			}
			got.WriteString(rest)
		}
		if got.String() != want {
			t.Errorf("%v: got\n%s\nwant\n%s", level, &got, want)
		}
	}
}
