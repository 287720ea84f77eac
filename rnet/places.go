// The places of a Listener: each Conn in the backlog has one, and each peer that is being connected.

package rnet

import (
	"context"
	"slices"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

var (
	errFull    = errors.New("the listener has no place, because its program does not accept, or too many others came at once; try: again later, or a longer ListenConfig.Backlog there")
	errSlow    = errors.New("it connects slowly, and others wait for its place; try: again later")
	errClosing = errors.New("the listener is being closed; try: again later")
)

// waitingPerPlace limits how many peers wait for a place.
const waitingPerPlace = 8

// awaitPlace takes a place for a peer that has said hello. If all are taken it waits. A slow peer then
// loses its place, so that peers which fall silent after their hello do not keep others out for long. gone is
// closed when the waiting peer ends, and why then returns the reason.
func (l *Listener) awaitPlace(gone <-chan struct{}, why func() error) error {
	select {
	case l.places <- struct{}{}:
		return nil
	default:
	}
	if !l.wait(1) {
		return errFull
	}
	defer l.wait(-1)
	end := l.cfg.Timeout
	if end <= 0 {
		end = oob.DefaultTimeout
	}
	over := time.NewTimer(end)
	defer over.Stop()
	look := time.NewTicker(l.patience())
	defer look.Stop()
	for {
		select {
		case l.places <- struct{}{}:
			return nil
		case <-look.C:
			l.dropSlow()
		case <-gone:
			return why()
		case <-over.C:
			return errFull
		case <-l.ctx.Done():
			return errClosing
		}
	}
}

// wait counts a peer that begins or ends to wait. It returns false if too many do.
func (l *Listener) wait(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > 0 && l.waiting >= waitingPerPlace*cap(l.places) {
		return false
	}
	l.waiting += n
	return true
}

// leastPatience is enough for an honest peer on a slow device.
const leastPatience = 250 * time.Millisecond

// patience is how long a peer may take to connect while others wait.
func (l *Listener) patience() time.Duration { return max(l.limit()/10, leastPatience) }

// dropSlow ends the connecting of the peers that have taken too long.
func (l *Listener) dropSlow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.connecting) > 0 && time.Since(l.connecting[0].since) > l.patience() {
		l.connecting[0].end(errSlow)
		l.connecting = l.connecting[1:]
	}
}

// newcomer is a peer that has a place and is being connected.
type newcomer struct {
	since time.Time
	end   context.CancelCauseFunc
}

func (l *Listener) begin(ctx context.Context) (context.Context, *newcomer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, end := context.WithCancelCause(ctx)
	me := &newcomer{time.Now(), end}
	l.connecting = append(l.connecting, me)
	return ctx, me
}

func (l *Listener) leave(me *newcomer) {
	me.end(nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.connecting = slices.DeleteFunc(l.connecting, func(n *newcomer) bool { return n == me })
}
