// Who has connected to the server by TCP and has yet to say hello: a client's place
// is taken from the hello on, so that whoever is silent keeps nobody out.

package run

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// HelloLimit is how long a server waits for a client's hello, if --timeout is not
// shorter: a client says it at once.
const HelloLimit = 5 * time.Second

// maxSilent is how many may be silent at a time, if the process may have many files
// open. One more, and who has been so for the longest goes.
const maxSilent = 1024

// lobbySize leaves the clients three quarters of the files that the process may have open.
func lobbySize(openFiles uint64) int { return int(max(1, min(maxSilent, openFiles/4))) }

var errCrowded = errors.New("too many others have connected since, and it said no hello; try: again")

// lobby holds those who are silent, in the order of their coming.
type lobby struct {
	size   int // how many there may be, at least 1
	mu     sync.Mutex
	silent []*silence
}

type silence struct{ end context.CancelCauseFunc }

// enter lets one in: its hello is waited for until the context ends. leave is to be
// called then.
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
