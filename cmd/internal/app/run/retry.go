// Doing a job again after a lost connection.

package run

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
)

// The pause before a new attempt doubles from one attempt to the next.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// retry calls attempt. If the connection is lost, retry calls attempt again after a pause, as long as
// the first loss is less than limit ago. An attempt that moved data for longer than limit ends one
// outage and begins another, so its loss counts as the first. The error of a later attempt has its number.
func retry(ctx context.Context, limit time.Duration, log *slog.Logger, attempt func(context.Context) error) error {
	var lost time.Time
	pause := firstPause
	for number := 1; ; number++ {
		began, motion := time.Now(), kit.NewMotion()
		err := attempt(kit.WithMotion(ctx, motion))
		if err == nil {
			return nil
		}
		if idle, moved := motion.Idle(); number == 1 || moved && time.Since(began)-idle > limit {
			lost, pause = time.Now(), firstPause
		}
		left := limit - time.Since(lost)
		again := kit.Lost(err) && ctx.Err() == nil
		switch {
		case number == 1 && (!again || limit == 0):
			return err
		case !again:
			return errors.WithMessagef(err, "attempt %d", number)
		case left <= 0:
			return errors.WithMessagef(err, "attempt %d, the last one within --retry %v", number, limit)
		}
		wait := min(jitter(pause), left)
		event.RunAgain.LogAt(slog.LevelWarn, log, fmt.Sprintf("no connection; attempt %d follows in %v", number+1, wait.Round(time.Millisecond)),
			slog.Int("attempt", number), slog.Duration("left", left), slog.String("error", err.Error()))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.WithMessagef(context.Cause(ctx), "after attempt %d", number)
		}
		pause = min(2*pause, longestPause)
	}
}

// jitter returns a random time from 0.75 d to 1.25 d, so that the clients of a server that restarts do not
// all come at once.
func jitter(d time.Duration) time.Duration {
	var b [1]byte
	rand.Read(b[:]) // never fails
	return d*3/4 + d/2*time.Duration(b[0])/256
}
