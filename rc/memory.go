// Memory that a connection uses: registering it, and sharing it with the peer.

package rc

import (
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

const remoteRights = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// AllocMR allocates and registers size bytes, until the Conn is closed; the Logger's records
// call the region by name. Errors are those of [verbs.PD.AllocMR], and net.ErrClosed after
// Close.
func (c *Conn) AllocMR(name string, size int, access verbs.Access) (*verbs.MR, error) {
	return c.register(name, access, func(access verbs.Access) (*verbs.MR, error) { return c.pd.AllocMR(size, access) })
}

// RegMR registers the caller's memory, until the Conn is closed. The memory may be
// registered for other connections too. Errors are those of [verbs.PD.RegMR], and
// net.ErrClosed after Close.
func (c *Conn) RegMR(name string, buf []byte, access verbs.Access) (*verbs.MR, error) {
	return c.register(name, access, func(access verbs.Access) (*verbs.MR, error) { return c.pd.RegMR(buf, access) })
}

func (c *Conn) register(name string, access verbs.Access, reg func(verbs.Access) (*verbs.MR, error)) (*verbs.MR, error) {
	if !c.begin() {
		return nil, errClosed
	}
	defer c.calls.Done()
	if c.server != nil && c.server.binds() {
		return c.windows.register(&c.resources, name, access, reg)
	}
	return c.resources.register(name, func() (*verbs.MR, error) { return reg(access) })
}

// Share offers a region to the peer under a unique name of 1 to oob.MaxRegionName bytes, with
// the remote rights that it was registered with. Call Share in Config.Prepare, because the
// regions are exchanged right after it. A region of a [Server] gets a key for this peer alone;
// if that fails, connecting does.
func (c *Conn) Share(name string, mr *verbs.MR) {
	region := oob.Region{Name: name, Addr: mr.Addr(), RKey: mr.RKey(), Length: uint64(mr.Len())}
	var err error
	if c.server != nil {
		region.RKey, err = c.server.share(c, name, mr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shareErr = orErr(c.shareErr, errors.WithMessagef(err, "share the region %q", name))
	c.regions = append(c.regions, region)
}

// share makes a region of the server, or of its Conn, usable by the Conn's peer alone, and
// returns the key for it.
func (s *Server) share(c *Conn, name string, mr *verbs.MR) (rkey uint32, err error) {
	switch {
	case s.binds():
		rights, known := c.windows.rightsOf(mr)
		if !known {
			if rights, known = s.shared.rightsOf(mr); !known {
				rights = mr.Access() & remoteRights
			}
		}
		return c.windows.open(&c.resources, name, mr, rights)
	case s.separate && s.owns(mr):
		own, err := c.RegMR(name, mr.Bytes(), mr.Access())
		if err != nil {
			return 0, err
		}
		return own.RKey(), nil
	}
	return mr.RKey(), nil
}

// bindWindows opens the windows that regions are shared by, before the peer is told to begin.
func (c *Conn) bindWindows(ctx context.Context) error {
	for i := range c.windows.binds {
		if _, err := c.Do(ctx, &verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &c.windows.binds[i]}); err != nil {
			return err
		}
	}
	return nil
}

func orErr(first, second error) error {
	if first != nil {
		return first
	}
	return second
}
