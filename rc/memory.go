// Registering memory, and sharing it with the peer.

package rc

import (
	"cmp"
	"context"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

const remoteRights = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic

// AllocMR allocates and registers size bytes until Close. The name is for the log. The errors are
// those of [verbs.PD.AllocMR], and net.ErrClosed.
func (c *Conn) AllocMR(name string, size int, access verbs.Access) (*verbs.MR, error) {
	return c.register(name, access, func(access verbs.Access) (*verbs.MR, error) { return c.pd.AllocMR(size, access) })
}

// RegMR registers the caller's memory, like AllocMR; several Conns may do so.
func (c *Conn) RegMR(name string, buf []byte, access verbs.Access) (*verbs.MR, error) {
	return c.register(name, access, func(access verbs.Access) (*verbs.MR, error) { return c.pd.RegMR(buf, access) })
}

func (c *Conn) register(name string, access verbs.Access, reg func(verbs.Access) (*verbs.MR, error)) (*verbs.MR, error) {
	if !c.begin() {
		return nil, errClosed
	}
	defer c.calls.Done()
	return c.resources.register(name, access, c.server != nil && c.server.binds(), reg)
}

// Share offers a region to the peer under a unique name of 1 to oob.MaxRegionName bytes. The peer
// gets the remote rights that the region was registered with. Call Share in Config.Prepare; a
// failure ends the connecting.
func (c *Conn) Share(name string, mr *verbs.MR) {
	region := oob.Region{Name: name, Addr: mr.Addr(), RKey: mr.RKey(), Length: uint64(mr.Len())}
	var err error
	if c.server != nil {
		region.RKey, err = c.server.share(c, name, mr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shareErr = cmp.Or(c.shareErr, errors.WithMessagef(err, "share the region %q", name))
	c.regions = append(c.regions, region)
}

// share opens a region of the server or of the Conn to the Conn's peer alone, and returns the key.
func (s *Server) share(c *Conn, name string, mr *verbs.MR) (rkey uint32, err error) {
	switch {
	case s.binds():
		rights, known := c.rightsOf(mr)
		if !known {
			if rights, known = s.rightsOf(mr); !known {
				rights = mr.Access() & remoteRights
			}
		}
		return c.openWindow(name, mr, rights)
	case s.separate:
		if _, known := s.rightsOf(mr); known {
			own, err := c.RegMR(name, mr.Bytes(), mr.Access())
			if err != nil {
				return 0, err
			}
			return own.RKey(), nil
		}
	}
	return mr.RKey(), nil
}

// bindWindows posts the binds of the windows, before the peer may send.
func (c *Conn) bindWindows(ctx context.Context) error {
	for i := range c.binds {
		if _, err := c.Do(ctx, &verbs.SendWR{Opcode: verbs.OpBindMW, Bind: &c.binds[i]}); err != nil {
			return err
		}
	}
	c.binds = nil
	return nil
}
