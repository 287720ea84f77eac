package summary

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestPriorities: lines that go to the journal begin with their priority, and others do not.
func TestPriorities(t *testing.T) {
	for _, journal := range []bool{true, false} {
		f := testkit.Journal(t)
		if !journal {
			t.Setenv("JOURNAL_STREAM", os.Getenv("JOURNAL_STREAM")+"1")
		}
		log := slog.New(New(f, slog.LevelInfo).WithAttrs([]slog.Attr{slog.String("path", string(event.Control))}))
		for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
			log.Log(context.Background(), level, "x", "event", event.RunDone.Name())
		}
		text, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"<6>time=", "<4>time=", "<3>time="}
		for i, got := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			if journal != strings.HasPrefix(got, want[i]) || journal == strings.HasPrefix(got, "time=") {
				t.Errorf("to the journal %v: %s", journal, got)
			}
		}
	}
}
