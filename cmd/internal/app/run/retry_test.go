package run

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/oob"
)

// TestRetry runs attempts that end by given errors, in simulated time.
func TestRetry(t *testing.T) {
	refused := &oob.AddressError{Op: "connect to", Err: syscall.ECONNREFUSED}
	for name, test := range map[string]struct {
		limit      time.Duration
		errs       []error // of the attempts; the last one is that of all others
		attempts   [2]int  // at least, at most
		took       [2]time.Duration
		want       string // in the error; "" means none
		impossible string // not in the error
	}{
		"success":       {time.Minute, []error{nil}, [2]int{1, 1}, [2]time.Duration{}, "", ""},
		"without limit": {0, []error{refused}, [2]int{1, 1}, [2]time.Duration{}, "connection refused", "attempt"},
		"refused job":   {time.Minute, []error{io.ErrShortWrite}, [2]int{1, 1}, [2]time.Duration{}, "short write", "attempt"},
		"comes back":    {time.Minute, []error{refused, refused, nil}, [2]int{3, 3}, [2]time.Duration{225 * time.Millisecond, 375 * time.Millisecond}, "", ""},
		"comes back and refuses": {time.Minute, []error{refused, io.ErrShortWrite}, [2]int{2, 2},
			[2]time.Duration{75 * time.Millisecond, 125 * time.Millisecond}, "attempt 2: short write", ""},
		// 0.1 + 0.2 + … + 3.2 s, then 5 s each: about 6 + 54/5 pauses
		"never comes back": {time.Minute, []error{refused}, [2]int{15, 22}, [2]time.Duration{time.Minute, time.Minute}, ", the last one within --retry 1m0s: oob: cannot connect", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, attempts := time.Now(), 0
				err := retry(t.Context(), test.limit, slog.New(slog.DiscardHandler), func(context.Context) error {
					attempts++
					return test.errs[min(attempts, len(test.errs))-1]
				})
				took := time.Since(began)
				if attempts < test.attempts[0] || attempts > test.attempts[1] || took < test.took[0] || took > test.took[1] {
					t.Errorf("%d attempts in %v", attempts, took)
				}
				switch {
				case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
					t.Errorf("%v, want %q", err, test.want)
				case test.impossible != "" && strings.Contains(err.Error(), test.impossible):
					t.Error(err)
				}
			})
		})
	}
}

// TestRetryCountsOutages loses attempts that have lasted for an hour. Only an attempt that moved data until
// shortly before its end begins the time anew.
func TestRetryCountsOutages(t *testing.T) {
	for name, test := range map[string]struct {
		progress bool
		idle     time.Duration // at the end of the attempt
		attempts int
	}{
		"moves data":       {true, time.Second, 4},
		"never moves data": {false, 0, 2},
		"moves data once":  {true, time.Hour - time.Second, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				err := retry(t.Context(), time.Minute, slog.New(slog.DiscardHandler), func(ctx context.Context) error {
					if attempts++; attempts == 4 {
						return nil
					}
					time.Sleep(time.Hour - test.idle)
					if test.progress {
						kit.Progress(ctx)
					}
					time.Sleep(test.idle)
					return &oob.TimeoutError{}
				})
				if attempts != test.attempts || (err == nil) != (attempts == 4) {
					t.Errorf("%d attempts, want %d: %v", attempts, test.attempts, err)
				}
			})
		})
	}
}

// TestRetryIsStopped ends the context during a pause.
func TestRetryIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		stopped := errors.New("stopped by a signal")
		time.AfterFunc(time.Minute, func() { stop(stopped) })
		began := time.Now()
		err := retry(ctx, time.Hour, slog.New(slog.DiscardHandler), func(context.Context) error { return &oob.TimeoutError{} })
		if !errors.Is(err, stopped) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
