// The clients that have connected by TCP and have not sent a hello. A client takes one of
// the server's places with its hello, so a silent one keeps nobody out.

package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// HelloLimit is how long a server waits for a client's hello, if --timeout is not shorter.
// A client sends it at once.
const HelloLimit = 5 * time.Second

// maxSilent is how many clients may be silent at a time, if the process may have many
// files open. When there is one more, the one that has been silent longest is dropped.
const maxSilent = 1024

// lobbySize leaves the clients three quarters of the files that the process may have open.
func lobbySize(openFiles uint64) int { return int(max(1, min(maxSilent, openFiles/4))) }

var errCrowded = errors.New("too many others have connected since, and it said no hello; try: again")

// lobby holds the silent clients, in the order of their arrival.
type lobby struct {
	size   int // how many there may be, at least 1
	mu     sync.Mutex
	silent []*silence
}

type silence struct{ end context.CancelCauseFunc }

// enter adds a client. The server waits for its hello until the context ends, then calls
// leave.
func (l *lobby) enter(ctx context.Context, limit time.Duration) (_ context.Context, leave func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	ctx, stop := context.WithTimeout(ctx, min(limit, HelloLimit))
	s := &silence{cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.silent) == l.size {
		l.silent[0].end(errCrowded)
		l.silent = slices.Delete(l.silent, 0, 1)
	}
	l.silent = append(l.silent, s)
	return ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.silent = slices.DeleteFunc(l.silent, func(other *silence) bool { return other == s })
		stop()
		cancel(nil)
	}
}
