// How a server stops: no new clients at once, and a bounded time for the jobs in progress.

package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/app/systemd"
	"github.com/rawverbs/rawverbs/internal/event"
)

// cutLimit is how long a server waits for clients whose jobs it has ended.
const cutLimit = 10 * time.Second

// graceful returns the context of the jobs. If a signal ends ctx, the jobs have Grace more; if
// something else ends it, such as the loss of the device, they end at once.
func (s *server) graceful(ctx context.Context) (jobs context.Context, stop func()) {
	jobs, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	release := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, context.Canceled) && s.Grace > 0 {
			select {
			case <-time.After(s.Grace):
			case <-jobs.Done():
			}
		}
		cut(cause)
	})
	return jobs, func() {
		release()
		cut(nil)
	}
}

// leave stops listening and waits for the clients. It returns an error if clients do not end
// although their jobs were ended; the process then exits with them.
func (s *server) leave(ctx, jobs context.Context, clients *sync.WaitGroup, l io.Closer) error {
	s.Counts.stop()
	_ = l.Close() // the listener has failed, or Serve closes it again
	// If systemd does not get this, the stop has its TimeoutStopSec, as of a program that reports nothing.
	_ = systemd.Notify(systemd.Stopping(s.Grace + 2*cutLimit))
	if n := s.admission.Usage().Clients; n > 0 && s.Grace > 0 && ctx.Err() != nil {
		clients := "1 client has"
		if n > 1 {
			clients = fmt.Sprintf("%d clients have", n)
		}
		event.ServerStopping.Log(s.Logger, fmt.Sprintf("stopping: no new clients; %s %v to end", clients, s.Grace), slog.Int("clients", n), slog.Duration("grace", s.Grace))
	}
	ended := make(chan struct{})
	go func() {
		clients.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-jobs.Done():
	}
	select {
	case <-ended:
		return nil
	case <-time.After(cutLimit):
		n := s.admission.Usage().Clients
		return errors.Errorf("%d clients did not end within %v after their jobs were stopped; try: dmesg, for errors of the device", n, cutLimit)
	}
}
