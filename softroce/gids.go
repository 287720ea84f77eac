// The port's state, its GID table and the host's addresses. They are cached, because a server of datagrams looks them up
// for each datagram.
//
// Interfaces and addresses come and go while a device is open. A goroutine waits for the system's notifications, so that
// the program gets PORT_ERR, PORT_ACTIVE and GID_CHANGE. Where the system has none, the tables are read for each query,
// and the events follow the query.
//
// Reading may fail for a while, for example without free file descriptors. That says nothing of the port: the tables stay
// as they are, and are read again soon.

package softroce

import (
	stderrors "errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/host"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// gidTable holds what the device has of the host.
type gidTable struct {
	mu      sync.Mutex
	watch   *host.Watch
	changed func() bool // the watch's method; tests replace it, and host
	host    hostReader
	err     error // of the last read, which is tried again
	known   bool  // what follows was read
	state   portState
	entries []verbs.GIDEntry
	local   map[netip.Addr]bool // the host's addresses

	waits  sync.WaitGroup // the goroutine that waits for changes
	closed chan struct{}
}

// hostReader reads interfaces and addresses, as package host does.
type hostReader struct {
	allAddresses func() ([]netip.Addr, error)
	named        func(string) (*net.Interface, []netip.Addr, error)
	with         func(netip.Addr) (*net.Interface, error)
}

// rereadPause is the time after which tables that could not be read are read again. Tests replace it.
var rereadPause = time.Second

func (g *gidTable) init() {
	g.watch = host.NewWatch()
	g.changed = g.watch.Changed
	g.host = hostReader{host.AllAddresses, host.Interface, host.InterfaceOf}
	g.closed = make(chan struct{})
}

// real reports whether the port is an address of this host. Others are on a simulated network, and always up.
func (p *port) real() bool {
	_, real := p.link.(*link.Socket)
	return real
}

// watchHost reports changes as events, from now on.
func (d *device) watchHost() {
	g := &d.gids
	if !slices.ContainsFunc(d.ports, (*port).real) {
		return
	}
	again := d.reread() // the events are of changes from this state
	g.waits.Go(func() {
		for again || g.watch.Wait() {
			if again {
				select {
				case <-g.closed:
					return
				case <-time.After(rereadPause):
				}
			}
			again = d.reread()
		}
	})
}

// reread reads the tables if they have changed, and reports whether it must be tried again.
func (d *device) reread() (again bool) {
	g := &d.gids
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = d.refresh() // an error is tried again, and queries return it
	return g.err != nil
}

func (g *gidTable) close() {
	close(g.closed)
	g.watch.Close()
	g.waits.Wait()
}

func (d *device) QueryGIDTable() ([]verbs.GIDEntry, error) {
	g := &d.gids
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := d.refresh(); err != nil {
		return nil, err
	}
	return slices.Clone(g.entries), nil
}

func (d *device) portState() (portState, error) {
	g := &d.gids
	g.mu.Lock()
	defer g.mu.Unlock()
	err := d.refresh()
	return g.state, err
}

// onThisHost reports whether the host has an address.
func (d *device) onThisHost(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	g := &d.gids
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = d.refresh() // an address that is not known counts as another host's, which costs only time
	return g.local[a.WithZone("")]
}

// refresh reads the tables again if they may have changed, and makes events of what has. It fails if they have never been
// read. The caller holds their lock.
func (d *device) refresh() error {
	g := &d.gids
	if changed := g.changed(); !changed && g.known && g.err == nil {
		return nil
	}
	h := hostTables{read: g.host, local: make(map[netip.Addr]bool), interfaces: make(map[string]hostInterface)}
	list, err := h.read.allAddresses()
	h.note(err)
	for _, a := range list {
		h.local[a] = true
	}
	state, entries := d.readPorts(&h)
	if g.err = h.err; g.err != nil {
		if g.known {
			return nil
		}
		return g.err
	}
	if up := state == portUp; g.known && up != (g.state == portUp) {
		event := verbs.EventPortErr
		if up {
			event = verbs.EventPortActive
		}
		d.events.Put(verbs.AsyncEvent{Type: event, Port: 1})
	}
	if g.known && !slices.Equal(g.entries, entries) {
		d.events.Put(verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1})
	}
	g.known, g.state, g.entries, g.local = true, state, entries, h.local
	return nil
}

// readPorts returns the port's state, and the GID table with those of the device's addresses that the host has.
func (d *device) readPorts(h *hostTables) (state portState, table []verbs.GIDEntry) {
	for _, p := range d.ports {
		entry := verbs.GIDEntry{GID: p.gid(), Port: 1, Index: p.gidIndex, Type: verbs.GIDTypeRoCEv2}
		ifi, has := h.interfaceOf(p)
		if !p.real() {
			state, has = portUp, true
		}
		if ifi != nil {
			state = max(state, stateOf(ifi))
			entry.Netdev, entry.IfIndex = ifi.Name, ifi.Index
		}
		if has {
			table = append(table, entry)
		}
	}
	return state, table
}

// portState is the state of an interface that has addresses of the device: the best one, if there are several.
type portState uint8

const (
	portDisabled portState = iota // it is down, or gone
	portPolling                   // it is up, but has no link
	portUp
)

func stateOf(ifi *net.Interface) portState {
	switch {
	case ifi.Flags&net.FlagUp == 0:
		return portDisabled
	case ifi.Flags&net.FlagRunning == 0:
		return portPolling
	}
	return portUp
}

// logical returns the state for programs.
func (s portState) logical() verbs.PortState {
	if s == portUp {
		return verbs.PortActive
	}
	return verbs.PortDown
}

// physical returns the code of the physical state.
func (s portState) physical() uint8 { return [...]uint8{portDisabled: 3, portPolling: 2, portUp: 5}[s] }

// hostTables are the host's addresses, and those of its interfaces that were looked up.
type hostTables struct {
	read       hostReader
	err        error // why they are not complete
	local      map[netip.Addr]bool
	interfaces map[string]hostInterface
}

type hostInterface struct {
	*net.Interface // nil if it does not exist
	addresses      []netip.Addr
}

// note notes an error, unless it says that something does not exist.
func (h *hostTables) note(err error) {
	if h.err == nil && !stderrors.Is(err, host.ErrNotFound) {
		h.err = err
	}
}

// interfaceOf returns the interface that has the port's address. If the host has lost the address, it returns the
// interface that had it when the device was opened, or nil, and false.
func (h *hostTables) interfaceOf(p *port) (ifi *net.Interface, has bool) {
	name, addr := p.link.Status().Interface, p.link.Addr()
	was, known := h.interfaces[name]
	if !known {
		var err error
		was.Interface, was.addresses, err = h.read.named(name)
		h.note(err)
		h.interfaces[name] = was
	}
	switch {
	case addr.IsLoopback():
		return was.Interface, was.Interface != nil
	case slices.Contains(was.addresses, addr):
		return was.Interface, true
	case addr.IsLinkLocalUnicast() || !h.local[addr]:
		return was.Interface, false
	}
	now, err := h.read.with(addr) // the interface has another name, or the address was moved
	if h.note(err); err != nil {
		return was.Interface, false
	}
	return now, true
}
