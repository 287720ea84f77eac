package rc

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/internal/event"
)

// lockedText is a text that several goroutines write.
type lockedText struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}

// TestWhatALoggerGets checks at which levels a connection's steps, its dumps and its keys are, for a program and for
// a command.
func TestWhatALoggerGets(t *testing.T) {
	const steps, dumps, keys = 1, 2, 4
	shown := func(h slog.Handler) slog.Handler { return event.Shown(slog.New(h)).Handler() }
	itself := func(h slog.Handler) slog.Handler { return h }
	for _, test := range []struct {
		level slog.Level
		by    func(slog.Handler) slog.Handler
		want  int
	}{
		{slog.LevelInfo, itself, 0},
		{slog.LevelDebug, itself, steps},
		{slog.LevelDebug - 4, itself, steps | dumps},
		{slog.LevelDebug - 11, itself, steps | dumps},
		{slog.LevelDebug - 12, itself, steps | dumps | keys},
		{slog.LevelWarn, shown, 0},
		{slog.LevelInfo, shown, steps | keys},
		{slog.LevelDebug, shown, steps | dumps | keys},
	} {
		var text lockedText
		log := slog.New(test.by(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: test.level}))).With("who", "client")
		c, s := pair(t, Config{Logger: log}, Config{})
		remote, _ := c.PeerRegion("test")
		secrets := []uint64{uint64(c.mr.RKey()), uint64(c.mr.LKey()), c.mr.Addr(), uint64(remote.RKey), remote.Addr} // 0 after Close
		for _, err := range finish(t, c, s) {
			if err != nil {
				t.Error(err)
			}
		}
		got := 0
		if strings.Contains(text.String(), "INIT→RTR") {
			got |= steps
		}
		if strings.Contains(text.String(), "ibv_query_qp") {
			got |= dumps
		}
		for _, secret := range secrets {
			for _, form := range []string{fmt.Sprintf("%x", secret), fmt.Sprint(secret)} { // whatever stands before and behind it
				const least = 6 // digits, as a number of less, such as a key of rdma_rxe, may stand there by chance
				if len(form) >= least && strings.Contains(strings.ToLower(text.String()), form) {
					got |= keys
				}
			}
		}
		if got != test.want || test.want == 0 && text.Len() > 0 {
			t.Errorf("a handler of level %v: got %03b, want %03b (1 steps, 2 dumps, 4 keys):\n%s", test.level, got, test.want, text.String())
		}
	}
}
