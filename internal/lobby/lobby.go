// Package lobby holds the peers that have connected to a server by TCP and have not sent a
// hello. A peer takes one of the server's places with its hello, so a silent peer does not keep
// others out.
package lobby

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// HelloLimit is how long a server waits for a client's hello, unless its own timeout is
// shorter. A client sends its hello at once.
const HelloLimit = 5 * time.Second

// maxSilent is how many peers may be silent at a time, if the process may have many files
// open. When there is one more, the one that has been silent longest is dropped.
const maxSilent = 1024

// sizeFor leaves the clients three quarters of the files that the process may have open.
func sizeFor(openFiles uint64) int { return int(max(1, min(maxSilent, openFiles/4))) }

var errCrowded = errors.New("it sent no hello, and too many others have connected since; try: again")

// Lobby holds the silent peers in the order of their arrival. [New] makes it.
type Lobby struct {
	size   int // how many there may be, at least 1
	mu     sync.Mutex
	silent []*silence
}

type silence struct{ end context.CancelCauseFunc }

// New makes a lobby that suits the number of files that the process may have open.
func New() *Lobby { return &Lobby{size: sizeFor(openFiles())} }

// Enter lets a peer in. The returned context limits the wait for its hello: by limit and
// HelloLimit, and by later peers if there are too many. Call leave after the wait.
func (l *Lobby) Enter(ctx context.Context, limit time.Duration) (_ context.Context, leave func()) {
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
