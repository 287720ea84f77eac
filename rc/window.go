// Windows: opening a region to one of the peers whose queue pairs share a domain. The region itself
// grants no remote right, so its own key opens nothing. Each Conn has a window of type 2 that is
// bound to its queue pair, and the window's key works on no other queue pair.

package rc

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// registerBound registers a region of r that only windows open to a peer: it has no remote rights itself.
func (r *resources) registerBound(name string, access verbs.Access, reg func(verbs.Access) (*verbs.MR, error)) (*verbs.MR, error) {
	rights := access & remoteRights
	readOnly := access&verbs.AccessLocalWrite == 0 && rights&^verbs.AccessRemoteRead != 0
	if rights != 0 && !readOnly { // otherwise the device returns the error
		access = access&^remoteRights | verbs.AccessMWBind
	}
	return r.register(name, rights, func() (*verbs.MR, error) { return reg(access) })
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
