// Windows: opening a region to one of the peers whose queue pairs share a domain. The region itself
// grants no remote right, so its own key opens nothing. Each Conn has a window of type 2 that is
// bound to its queue pair, and the window's key works on no other queue pair.

package rc

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// boundAccess returns what a region is registered with if only windows open it to a peer: no remote right of its own.
func boundAccess(access verbs.Access) verbs.Access {
	rights := access & remoteRights
	if rights == 0 || access&verbs.AccessLocalWrite == 0 && rights != verbs.AccessRemoteRead {
		return access // nothing to open, or the device returns the error
	}
	return access&^remoteRights | verbs.AccessMWBind
}

// openWindow makes a window to a region, and returns the key that a later bind gives it.
func (c *Conn) openWindow(name string, mr *verbs.MR, rights verbs.Access) (rkey uint32, err error) {
	if rights == 0 {
		return 0, errors.New("it was registered without a remote right; try: one such as AccessRemoteRead")
	}
	mw, err := c.pd.AllocMW(verbs.MWType2)
	if err != nil {
		return 0, err
	}
	c.own("ibv_dealloc_mw", "memory window of "+name, mw)
	c.events.made("ibv_alloc_mw", "make memory window of "+name)
	bind := verbs.MWBind{MW: mw, MR: mr, RKey: verbs.IncRKey(mw.RKey()), Addr: mr.Addr(), Length: uint64(mr.Len()), Access: rights}
	c.binds = append(c.binds, bind)
	return bind.RKey, nil
}
