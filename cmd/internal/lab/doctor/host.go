// The machine as the checks see it.

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// Host is the machine and what the doctor is asked about it.
type Host struct {
	System
	Files  fs.FS    // the root directory: /sys, /proc and others
	Device string   // check only this device; "" checks all
	Peer   string   // HOST; "" if none is given
	Port   int      // TCP port of rdma_server at HOST
	Args   []string // of this command line; a flag and its value are one word: --flag=value
	UID    int
	Parent int // process ID of the shell

	Preloaded string // the name that libibverbs gives the soft device, if rawverbs run started this program

	limit   time.Duration   // of all checks
	wait    time.Duration   // for a device that follows its interface with a delay; 0 is a tenth of the limit
	devices []*device       // the kernel's devices that are checked
	others  []string        // names of the kernel's other devices
	failed  map[string]bool // checks
	peer    netip.Addr      // address of HOST, found by the check of the route
	dialed  string          // the device for the job with HOST
}

// System is what the doctor asks the running system, beside files.
type System interface {
	// Interfaces lists the network interfaces of this network namespace.
	Interfaces() ([]Interface, error)
	// OpenFile opens a file for reading and writing, and closes it.
	OpenFile(name string) error
	// Memlock returns RLIMIT_MEMLOCK in bytes, -1 for unlimited. exempt: CAP_IPC_LOCK.
	Memlock() (limit int64, exempt bool)
	// Listed lists the devices that libibverbs finds.
	Listed() ([]string, error)
	// Probe opens a device, queries port 1 and its GIDs, and registers a page of memory.
	Probe(device string) Probe
	// Loopback connects a device with itself, by the GID with this index (-1: any), and
	// WRITEs and READs. notes is what the host refuses to a soft device; see [softroce.Notes].
	Loopback(ctx context.Context, device string, gid int) (notes []string, err error)
	// SendUDP sends datagrams to UDP port 4791 of an own address, and reports which way
	// they do not take.
	SendUDP(ctx context.Context, to netip.Addr) (Blocked, error)
	// Lookup returns the address of a host.
	Lookup(ctx context.Context, host string) (netip.Addr, error)
	// Source returns the own address that packets to an address carry.
	Source(to netip.Addr) (netip.Addr, error)
	// Connect opens a TCP connection and closes it.
	Connect(ctx context.Context, to netip.AddrPort) error
	// Job runs a job with a rawverbs server. The flags are those of rdma_client.
	Job(ctx context.Context, device string, to netip.AddrPort, flags ...string) error
}

// Interface is a network interface.
type Interface struct {
	Name    string
	Up      bool // set up by its owner
	Carrier bool // has a link
	MTU     int
	Addrs   []netip.Addr
}

// Probe is what came of opening a device.
type Probe struct {
	OpenErr error
	Port    verbs.PortAttr // port 1
	GIDs    []verbs.GIDEntry
	Memory  error // of the registration
}

// Blocked says where datagrams to the own UDP port 4791 end.
type Blocked int

// The values of Blocked.
const (
	NotBlocked Blocked = iota
	Leaving            // refused when sent
	Arriving           // sent, and not received
)

// device is a device of the kernel.
type device struct {
	name   string
	driver string // "rxe", "siw", or the name of the hardware's driver
	netdev string // the network interface, "" for InfiniBand or if unknown
	uverbs string // "uverbs0", "" if there is none
	gids   []gid
	probe  Probe
	gid    int // index of the GID that the job on loopback takes, -1 if none
	addr   netip.Addr
	failed map[string]bool // checks
}

// gid is a filled slot of port 1.
type gid struct {
	index  int
	addr   netip.Addr
	kind   verbs.GIDType
	netdev string
}

func (d *device) failedOf(names []string) string {
	i := slices.IndexFunc(names, func(name string) bool { return d.failed[name] })
	if i < 0 {
		return ""
	}
	return names[i]
}

// software reports whether the device's packets go through the kernel's network stack.
func (d *device) software() bool { return d.driver == "rxe" }

func (h *Host) markFailed(name, check string) {
	for _, d := range h.devices {
		if d.name == name {
			d.failed[check] = true
		}
	}
}

// text returns a file, "" if it cannot be read.
func (h *Host) text(elem ...string) string {
	text, _ := fs.ReadFile(h.Files, path.Join(elem...))
	return string(text)
}

// read returns the first line of a file, "" if it cannot be read.
func (h *Host) read(elem ...string) string {
	line, _, _ := strings.Cut(h.text(elem...), "\n")
	return strings.TrimSpace(line)
}

func (h *Host) exists(name string) bool {
	_, err := fs.Stat(h.Files, name)
	return err == nil
}

// entries returns the names in a directory, nil if it does not exist.
func (h *Host) entries(dir string) (names []string) {
	list, _ := fs.ReadDir(h.Files, dir)
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

const class = "sys/class/infiniband"

// look finds the kernel's devices.
func (h *Host) look() {
	for _, name := range h.entries(class) {
		if h.Device != "" && h.Device != name {
			h.others = append(h.others, name)
			continue
		}
		d := &device{name: name, gid: -1, failed: map[string]bool{}}
		d.netdev = h.read(class, name, "parent") // only rxe has this file
		switch link, err := fs.ReadLink(h.Files, path.Join(class, name, "device/driver")); {
		case d.netdev != "":
			d.driver = "rxe"
		case err == nil:
			d.driver = path.Base(link)
		default:
			d.driver = strings.TrimRight(name, "0123456789")
		}
		for _, u := range h.entries("sys/class/infiniband_verbs") {
			if h.read("sys/class/infiniband_verbs", u, "ibdev") == name {
				d.uverbs = u
			}
		}
		if nets := h.entries(path.Join(class, name, "device/net")); d.netdev == "" && len(nets) > 0 {
			d.netdev = nets[0]
		}
		h.devices = append(h.devices, d)
	}
}

// examine opens the device, reads its port and GIDs, and reports whether it opened. It does
// not read the files of the GID table: rdma_rxe has 1024 of them, which takes seconds.
func (h *Host) examine(d *device) bool {
	d.probe, d.gids = h.Probe(d.name), nil
	for _, e := range d.probe.GIDs {
		if e.Port == 1 {
			netdev := h.read(class, d.name, "ports/1/gid_attrs/ndevs", strconv.Itoa(e.Index))
			d.netdev = cmp.Or(d.netdev, netdev)
			d.gids = append(d.gids, gid{e.Index, e.GID.Addr().Unmap(), e.Type, netdev})
		}
	}
	return d.probe.OpenErr == nil
}

func (h *Host) iface(name string) (Interface, bool) {
	all, _ := h.Interfaces()
	i := slices.IndexFunc(all, func(f Interface) bool { return f.Name == name })
	if i < 0 {
		return Interface{}, false
	}
	return all[i], true
}

// owner returns the interface that has an address.
func (h *Host) owner(addr netip.Addr) (Interface, bool) {
	all, _ := h.Interfaces()
	for _, f := range all {
		if slices.Contains(f.Addrs, addr) || addr.IsLoopback() && f.Name == "lo" {
			return f, true
		}
	}
	return Interface{}, false
}

// asRoot joins commands that need root.
func (h *Host) asRoot(commands ...string) string {
	if h.UID != 0 {
		for i := range commands {
			commands[i] = "sudo " + commands[i]
		}
	}
	return strings.Join(commands, " && ")
}

// addRXE is the command that makes a device in software. It takes the interface towards
// HOST, or else the first that is up.
func (h *Host) addRXE(name string) string {
	kind := "rxe"
	if strings.HasPrefix(name, "siw") {
		kind = "siw"
	} else if !strings.HasPrefix(name, "rxe") {
		name = "rxe0"
	}
	module := map[string]string{"rxe": "rdma_rxe", "siw": "siw"}[kind]
	netdev := h.netdevForRXE()
	if h.container() != "" {
		netdev = "" // that of the container's host
	}
	add := fmt.Sprintf("rdma link add %s type %s netdev %s", quoted(name), kind, cmp.Or(netdev, "NETDEV"))
	if h.exists("sys/module/" + module) {
		return h.asRoot(add)
	}
	return h.asRoot("modprobe "+module, add)
}

func (h *Host) netdevForRXE() string {
	if addr, err := netip.ParseAddr(h.Peer); err == nil {
		if source, err := h.Source(addr); err == nil && !source.IsLoopback() {
			f, _ := h.owner(source)
			return f.Name
		}
	}
	best, points := "", 0
	all, _ := h.Interfaces()
	for _, f := range all {
		p := 1
		if f.Up && f.Carrier {
			p++
		}
		if slices.ContainsFunc(f.Addrs, netip.Addr.Is4) {
			p += 2
		}
		if f.Name != "lo" && p > points {
			best, points = f.Name, p
		}
	}
	return best
}

// install is the command that installs a package, by its name on Debian and on Fedora.
func (h *Host) install(debian, fedora string) string {
	for line := range strings.Lines(h.text("etc/os-release")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key != "ID" && key != "ID_LIKE" {
			continue
		}
		for _, id := range strings.Fields(strings.Trim(value, `"`)) {
			switch id {
			case "fedora", "rhel", "centos":
				return h.asRoot("dnf install " + fedora)
			}
		}
	}
	return h.asRoot("apt-get install " + debian)
}

// The namespaces of the first process of a machine, by the kernel's fixed numbers.
const (
	firstPIDs    = "pid:[4026531836]"
	firstCgroups = "cgroup:[4026531835]"
)

// container returns the kind of container that this process runs in, "" outside of a
// container. A virtual machine may run on the files of a container, so container also
// compares the namespaces.
func (h *Host) container() string {
	pids, err1 := fs.ReadLink(h.Files, "proc/self/ns/pid")
	cgroups, err2 := fs.ReadLink(h.Files, "proc/self/ns/cgroup")
	switch {
	case err1 == nil && err2 == nil && pids == firstPIDs && cgroups == firstCgroups:
		return ""
	case h.exists(".dockerenv"):
		return "docker"
	case h.exists("run/.containerenv"):
		return "podman"
	}
	return ""
}

func isSoft(name string) bool { return name == "soft0" || strings.HasPrefix(name, "soft:") }
