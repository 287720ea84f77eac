// Clients that have connected by TCP and have not sent a hello. They have no place, so a silent client does
// not keep others out. No address can fill the room for them.

package admission

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// HelloLimit is how long a server waits for a client's hello, unless its own timeout is
// shorter. A client sends its hello at once.
const HelloLimit = 5 * time.Second

// mostSilent is how many clients may be silent at a time, if the process may have many files open.
const mostSilent = 1024

// silentFor leaves the other clients three quarters of the files that the process may have open.
func silentFor(openFiles uint64) int { return int(max(1, min(mostSilent, openFiles/4))) }

// ErrCrowded is the cause of the context of a client that has to leave because it was silent.
var ErrCrowded = errors.New("it sent no hello, and too many others have connected since; try: again")

// makeRoomForSilent makes the oldest client of the address with most silent clients leave, if there are too
// many. The lock is held.
func (ac *Controller) makeRoomForSilent() {
	if len(ac.silent) < ac.maxSilent {
		return
	}
	_, most := count(ac.silent)
	i := slices.IndexFunc(ac.silent, func(c *Client) bool { return c.from == most })
	ac.silent[i].end(ErrCrowded)
	ac.silent[i].phase = greeted
	ac.silent = slices.Delete(ac.silent, i, i+1)
}

// count counts clients by their addresses. most is the address with most, the first of several.
func count(clients []*Client) (by map[netip.Addr]int, most netip.Addr) {
	by = make(map[netip.Addr]int)
	for _, c := range clients {
		by[c.from]++
	}
	for _, c := range clients {
		if by[c.from] > by[most] {
			most = c.from
		}
	}
	return by, most
}

// Hello calls hello, which waits for the client's hello. Its context ends after limit or HelloLimit, or if the
// client has to leave. The time counts from this call, not from accept: on a busy host a goroutine may begin to
// wait long after the client connected and sent its hello.
func (c *Client) Hello(limit time.Duration, hello func(context.Context) error) error {
	ctx, stop := context.WithTimeout(c.ctx, min(limit, HelloLimit))
	defer stop()
	err := hello(ctx)
	ac := c.controller
	ac.mu.Lock()
	defer ac.mu.Unlock()
	if c.phase == silent {
		ac.silent = without(ac.silent, c)
		c.phase = greeted
	}
	return err
}

func without(clients []*Client, c *Client) []*Client {
	return slices.DeleteFunc(clients, func(other *Client) bool { return other == c })
}
