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
	silent []*Guest
}

// New makes a lobby that suits the number of files that the process may have open.
func New() *Lobby { return &Lobby{size: sizeFor(openFiles())} }

// Guest is a peer that has entered a lobby, until its Wait ends.
type Guest struct {
	lobby *Lobby
	ctx   context.Context // ends when there are too many others
	end   context.CancelCauseFunc
}

// Enter lets a peer in. Call it in the order in which the peers connected, because the guest
// that entered first is dropped if there are too many. Then call Wait, in any goroutine.
func (l *Lobby) Enter(ctx context.Context) *Guest {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &Guest{l, ctx, cancel}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.silent) == l.size {
		l.silent[0].end(errCrowded)
		l.silent = slices.Delete(l.silent, 0, 1)
	}
	l.silent = append(l.silent, g)
	return g
}

// Wait calls hello, which waits for the peer's hello. Its context ends after limit or
// HelloLimit, or if there are too many others. The time counts from this call, not from Enter:
// on a busy host a goroutine may begin to wait long after the peer connected and sent its hello.
// The guest leaves the lobby after hello.
func (g *Guest) Wait(limit time.Duration, hello func(context.Context) error) error {
	ctx, stop := context.WithTimeout(g.ctx, min(limit, HelloLimit))
	defer stop()
	err := hello(ctx)
	g.lobby.mu.Lock()
	defer g.lobby.mu.Unlock()
	g.lobby.silent = slices.DeleteFunc(g.lobby.silent, func(other *Guest) bool { return other == g })
	g.end(nil)
	return err
}
