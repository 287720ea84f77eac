// Windows: opening a region to one of the peers whose queue pairs share a domain. The region itself
// grants no remote right, so its own key opens nothing. Each Conn has a window of type 2 that is
// bound to its queue pair, and the window's key works on no other queue pair.

package rc

import (
	"sync"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// windows has the regions that only windows open, and the binds of these windows.
type windows struct {
	binds []verbs.MWBind // used only by Prepare's goroutine and while connecting

	mu     sync.Mutex
	rights map[*verbs.MR]verbs.Access // remote rights that the program registered a region with
}

// register registers a region of r without its remote rights, and keeps the rights for a window.
func (w *windows) register(r *resources, name string, access verbs.Access, reg func(verbs.Access) (*verbs.MR, error)) (*verbs.MR, error) {
	rights := access & remoteRights
	readOnly := access&verbs.AccessLocalWrite == 0 && rights&^verbs.AccessRemoteRead != 0
	if rights != 0 && !readOnly { // otherwise the device returns the error
		access = access&^remoteRights | verbs.AccessMWBind
	}
	mr, err := r.register(name, func() (*verbs.MR, error) { return reg(access) })
	if err == nil {
		w.keep(mr, rights)
	}
	return mr, err
}

func (w *windows) keep(mr *verbs.MR, rights verbs.Access) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rights == nil {
		w.rights = make(map[*verbs.MR]verbs.Access)
	}
	w.rights[mr] = rights
}

// rightsOf returns the remote rights of a region that register made.
func (w *windows) rightsOf(mr *verbs.MR) (rights verbs.Access, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rights, known = w.rights[mr]
	return rights, known
}

// open makes a window of r to a region, and returns the key that a later bind gives it.
func (w *windows) open(r *resources, name string, mr *verbs.MR, rights verbs.Access) (rkey uint32, err error) {
	if rights == 0 {
		return 0, errors.New("it was registered without a remote right; try: one such as AccessRemoteRead")
	}
	mw, err := r.pd.AllocMW(verbs.MWType2)
	if err != nil {
		return 0, err
	}
	r.own("ibv_dealloc_mw", "memory window of "+name, mw)
	r.events.made("ibv_alloc_mw", "make memory window of "+name)
	bind := verbs.MWBind{MW: mw, MR: mr, RKey: verbs.IncRKey(mw.RKey()), Addr: mr.Addr(), Length: uint64(mr.Len()), Access: rights}
	w.binds = append(w.binds, bind)
	return bind.RKey, nil
}
