package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

// fake is a System with one device, rxe0 on eth0.
type fake struct {
	interfaces []Interface
	fileErr    error
	memlock    int64
	listed     []string
	listErr    error
	probe      Probe
	loopback   map[string]error
	notes      []string // of a soft device
	udp        Blocked
	source     netip.Addr
	sourceErr  error
	lookupErr  error
	connectErr error
	jobErr     func(flags []string) error
	jobs       []string
	hang       chan struct{} // the probe waits for it
}

func (f *fake) Interfaces() ([]Interface, error)                     { return f.interfaces, nil }
func (f *fake) OpenFile(string) error                                { return f.fileErr }
func (f *fake) Memlock() (int64, bool)                               { return f.memlock, false }
func (f *fake) Listed() ([]string, error)                            { return f.listed, f.listErr }
func (f *fake) SendUDP(context.Context, netip.Addr) (Blocked, error) { return f.udp, nil }
func (f *fake) Source(netip.Addr) (netip.Addr, error)                { return f.source, f.sourceErr }
func (f *fake) Connect(context.Context, netip.AddrPort) error        { return f.connectErr }

func (f *fake) Probe(string) Probe {
	if f.hang != nil {
		<-f.hang
	}
	return f.probe
}

func (f *fake) Loopback(_ context.Context, device string, _ int) ([]string, error) {
	return f.notes, f.loopback[device]
}

func (f *fake) Lookup(_ context.Context, host string) (netip.Addr, error) {
	if f.lookupErr != nil {
		return netip.Addr{}, f.lookupErr
	}
	return netip.ParseAddr(host)
}

func (f *fake) Job(_ context.Context, device string, to netip.AddrPort, flags ...string) error {
	f.jobs = append(f.jobs, fmt.Sprint(device, " ", to, " ", flags[0]))
	if f.jobErr != nil {
		return f.jobErr(flags)
	}
	return nil
}

// machine is a Host and what it is made of.
type machine struct {
	*Host
	fake  *fake
	files fstest.MapFS
}

func (m machine) write(name, text string) { m.files[name] = &fstest.MapFile{Data: []byte(text)} }

func (m machine) link(name, to string) {
	m.files[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
}

func (m machine) remove(prefix string) {
	maps.DeleteFunc(m.files, func(name string, _ *fstest.MapFile) bool { return strings.HasPrefix(name, prefix) })
}

const rxe0 = "sys/class/infiniband/rxe0/"

// healthy returns a machine with rxe0 on eth0 and nothing wrong.
func healthy() machine {
	f := &fake{
		interfaces: []Interface{
			{Name: "lo", Up: true, Carrier: true, MTU: 65536, Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
			{Name: "eth0", Up: true, Carrier: true, MTU: 1500, Addrs: []netip.Addr{netip.MustParseAddr("10.1.0.1")}},
			{Name: "eth1", Up: true, Carrier: true, MTU: 1500, Addrs: []netip.Addr{netip.MustParseAddr("10.2.0.1")}},
		},
		memlock: -1, listed: []string{"rxe0", "soft0"}, source: netip.MustParseAddr("10.1.0.1"),
		probe: Probe{Port: verbs.PortAttr{State: verbs.PortActive, ActiveMTU: verbs.MTU1024, LinkLayer: verbs.LinkEthernet}, GIDs: []verbs.GIDEntry{
			{GID: verbs.GIDFrom(netip.MustParseAddr("fe80::1")), Port: 1, Index: 0, Type: verbs.GIDTypeRoCEv2},
			{GID: verbs.GIDFrom(netip.MustParseAddr("10.1.0.1")), Port: 1, Index: 1, Type: verbs.GIDTypeRoCEv2},
		}},
		loopback: map[string]error{"soft0": syscall.EADDRINUSE},
	}
	m := machine{&Host{System: f, Port: 18515, Parent: 77, wait: time.Millisecond}, f, fstest.MapFS{}}
	m.Files = m.files
	for name, text := range map[string]string{
		rxe0 + "parent":                            "eth0\n",
		rxe0 + "ports/1/gid_attrs/ndevs/0":         "eth0\n",
		rxe0 + "ports/1/gid_attrs/ndevs/1":         "eth0\n",
		"sys/class/infiniband_verbs/uverbs3/ibdev": "rxe0\n",
		"sys/class/infiniband_verbs/uverbs3/dev":   "231:195\n",
		"sys/module/rdma_rxe/refcnt":               "1\n",
		"sys/module/ib_core/parameters/netns_mode": "Y\n",
		"proc/sys/kernel/osrelease":                "6.12.1\n",
		"lib/modules/6.12.1/modules.dep":           "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz:\n",
		"etc/os-release":                           "ID=debian\n",
	} {
		m.write(name, text)
	}
	return m
}

// without is a machine without a device of the kernel.
func without() machine {
	m := healthy()
	m.remove("sys/")
	m.fake.loopback = nil
	return m
}

// examine runs all checks.
func examine(t *testing.T, h *Host, limit time.Duration) (list []Finding, err error) {
	t.Helper()
	err = Run(t.Context(), h, limit, func(f Finding) error {
		list = append(list, f)
		return nil
	})
	return list, err
}

func text(list []Finding) string {
	var b bytes.Buffer
	for _, f := range list {
		_ = Text(&b)(f)
	}
	return b.String()
}

// long is a limit that no check reaches on a busy machine.
const long = 10 * time.Minute

func TestHealthyMachine(t *testing.T) {
	for name, peer := range map[string]string{"alone": "", "with a peer": "10.1.0.2"} {
		t.Run(name, func(t *testing.T) {
			m := healthy()
			m.Peer = peer
			list, err := examine(t, m.Host, long)
			for _, f := range list {
				if f.Status != OK && (f.Status != Skip || peer != "") {
					t.Errorf("%+v", f)
				}
			}
			if err != nil || t.Failed() {
				t.Fatalf("%v\n%s", err, text(list))
			}
			if !strings.HasSuffix(text(list), "\nok    verdict    you can run everything on rxe0\n") {
				t.Errorf("no verdict at the end:\n%s", text(list))
			}
			if want := []string{"rxe0 10.1.0.2:18515 --job=write-read", "rxe0 10.1.0.2:18515 --job=bulk", "rxe0 10.1.0.2:18515 --job=bulk"}; peer != "" && !slices.Equal(m.fake.jobs, want) {
				t.Errorf("jobs: %q, want %q", m.fake.jobs, want)
			}
		})
	}
}

// TestPlainMachine: without a device of the kernel nothing is wrong, because soft0 has all that a learner needs.
func TestPlainMachine(t *testing.T) {
	m := without()
	m.write("lib/modules/6.12.1/modules.dep", "")
	list, err := examine(t, m.Host, long)
	got := text(list)
	if err != nil || strings.Contains(got, "warn") || strings.Contains(got, "try:") || !strings.HasSuffix(got, "\nok    verdict    you can run everything on soft0\n") {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestFaults breaks one thing of a machine. The first finding that is neither ok nor
// skipped must be that of the check.
func TestFaults(t *testing.T) {
	down := verbs.PortAttr{State: 1, ActiveMTU: verbs.MTU1024, LinkLayer: verbs.LinkEthernet}
	retry := errors.WithMessage(&verbs.WCError{Status: 12}, "WRITE")
	peer := func(m machine) { m.Peer = "10.1.0.2" }
	container := func(m machine) { m.write(".dockerenv", "") }
	for _, c := range []struct {
		name    string
		machine machine
		with    func(m machine)
		check   string
		status  Status
		try     string // the remedy; what follows # is left out
	}{
		{"no module", without(), nil, "modules", Skip, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0"},
		{"no module, device asked for", without(), func(m machine) { m.Device = "rxe1" }, "modules", Fail, "modprobe rdma_rxe && rdma link add rxe1 type rxe netdev eth0"},
		{"no module, ordinary user", without(), func(m machine) { m.UID = 1 }, "modules", Skip, "sudo modprobe rdma_rxe && sudo rdma link add rxe0 type rxe netdev eth0"},
		{"no module, hardware asked for", without(), func(m machine) {
			m.Device = "mlx5_0"
			m.write("lib/modules/6.12.1/modules.dep", "kernel/mlx5_ib.ko:\n")
		}, "modules", Fail, "modprobe mlx5_ib"},
		{"no module, way to the peer", without(), func(m machine) { m.Peer, m.fake.source = "10.2.0.9", netip.MustParseAddr("10.2.0.1") }, "modules", Skip, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth1"},
		{"module not built", without(), func(m machine) { m.write("lib/modules/6.12.1/modules.dep", "") }, "modules", Skip, "apt-get install linux-image-amd64"},
		{"module not built, Ubuntu", without(), func(m machine) {
			m.remove("lib/")
			m.write("etc/os-release", "ID=ubuntu\nID_LIKE=debian\n")
		}, "modules", Skip, "apt-get install linux-modules-extra-6.12.1"},
		{"no module on the container's host", without(), container, "modules", Skip, "modprobe rdma_rxe && rdma link add rxe0 type rxe netdev NETDEV"},
		{"no ib_uverbs", healthy(), func(m machine) { m.remove("sys/class/infiniband_verbs") }, "modules", Fail, "modprobe ib_uverbs"},
		{"no device", without(), func(m machine) { m.write("sys/module/rdma_rxe/refcnt", "0") }, "devices", Skip, "rdma link add rxe0 type rxe netdev eth0"},
		{"another device", healthy(), func(m machine) { m.Device = "mlx5_0" }, "devices", Fail, "rdma_lab doctor --device rxe0"},
		{"device of another namespace", without(), func(m machine) {
			m.write("sys/module/rdma_rxe/refcnt", "0")
			m.write("sys/module/ib_core/parameters/netns_mode", "N")
			m.link("proc/self/ns/net", "net:[2]")
			m.link("proc/1/ns/net", "net:[1]")
		}, "devices", Skip, "nsenter --target 1 --net --mount rdma_lab doctor"},
		{"no file", healthy(), func(m machine) { m.fake.fileErr = fs.ErrNotExist }, "files", Fail, "mkdir -p /dev/infiniband && mknod -m 666 /dev/infiniband/uverbs3 c 231 195"},
		{"no file in the container", healthy(), func(m machine) { container(m); m.fake.fileErr = fs.ErrNotExist }, "files", Fail, "docker run --device /dev/infiniband/uverbs3 …"},
		{"no right to the file", healthy(), func(m machine) { m.UID, m.fake.fileErr = 1, syscall.EACCES }, "files", Fail, "sudo chmod 666 /dev/infiniband/uverbs3"},
		{"no provider", healthy(), func(m machine) { m.fake.listed = []string{"soft0"} }, "libraries", Fail, "apt-get install ibverbs-providers"},
		{"no libibverbs, Fedora", healthy(), func(m machine) {
			m.fake.listed, m.fake.listErr = nil, syscall.EOPNOTSUPP
			m.write("etc/os-release", "NAME=x\nID=fedora\n")
		}, "libraries", Fail, "dnf install libibverbs"},
		{"does not open", healthy(), func(m machine) { m.fake.probe.OpenErr = syscall.EIO }, "open", Fail, "rdma link show rxe0"},
		{"memlock", healthy(), func(m machine) { m.UID, m.fake.memlock, m.fake.probe.Memory = 1, 8<<20, syscall.ENOMEM }, "memlock", Fail, "sudo prlimit --pid 77 --memlock=unlimited:unlimited"},
		{"memlock 0", healthy(), func(m machine) { m.fake.memlock, m.fake.probe.Memory = 0, syscall.EPERM }, "memlock", Fail, "prlimit --pid 77 --memlock=unlimited:unlimited"},
		{"memlock in a container", healthy(), func(m machine) {
			container(m)
			m.fake.memlock, m.fake.probe.Memory = 64<<10, syscall.ENOMEM
		}, "memlock", Fail, "docker run --ulimit memlock=-1 …"},
		{"memlock is small", healthy(), func(m machine) { m.fake.memlock = 8 << 20 }, "memlock", Warn, "prlimit --pid 77 --memlock=unlimited:unlimited"},
		{"memory is short", healthy(), func(m machine) { m.fake.probe.Memory = syscall.ENOMEM }, "memlock", Fail, "free --mebi; rdma resource show"},
		{"interface elsewhere", healthy(), func(m machine) {
			m.fake.interfaces = m.fake.interfaces[:1]
			m.write("proc/9/net/dev", "  eth0: 1 2\n")
			m.write("proc/9/net/fib_trie", "|-- 10.9.0.1\n")
			m.write("proc/12/net/dev", "  eth0: 1 2\n")
			m.write("proc/12/net/fib_trie", "|-- 10.1.0.1\n")
		}, "namespace", Fail, "nsenter --target 12 --net --mount rdma_lab doctor"},
		{"interface of the same name", healthy(), func(m machine) {
			m.fake.interfaces[1].Addrs = []netip.Addr{netip.MustParseAddr("10.3.0.1")}
		}, "namespace", Fail, "nsenter --target 1 --net --mount rdma_lab doctor"},
		{"interface outside of the container", healthy(), func(m machine) {
			container(m)
			m.fake.interfaces = m.fake.interfaces[:1]
		}, "namespace", Fail, "docker run --network host …"},
		{"link down", healthy(), func(m machine) { m.fake.probe.Port, m.fake.interfaces[1].Up = down, false }, "port", Fail, "ip link set eth0 up"},
		{"port does not come up", healthy(), func(m machine) { m.fake.probe.Port = down }, "port", Fail, "rdma link show rxe0"},
		{"no carrier", healthy(), func(m machine) { m.fake.probe.Port, m.fake.interfaces[1].Carrier = down, false }, "port", Fail, "ip link show eth0"},
		{"no address", healthy(), func(m machine) {
			m.fake.probe.GIDs = m.fake.probe.GIDs[:1]
			m.fake.interfaces[1].Addrs = nil
		}, "gids", Fail, "ip address add 10.0.0.1/24 dev eth0"},
		{"no address, private network taken", healthy(), func(m machine) {
			m.fake.probe.GIDs = m.fake.probe.GIDs[:1]
			m.fake.interfaces[1].Addrs, m.fake.interfaces[2].Addrs = nil, []netip.Addr{netip.MustParseAddr("10.0.0.7")}
		}, "gids", Fail, "ip address add 10.0.1.1/24 dev eth0"},
		{"only IPv6", healthy(), ipv6Only, "gids", Warn, "ip address add 10.0.0.1/24 dev eth0"},
		{"only IPv6, IPv4 peer in no network", healthy(), func(m machine) {
			ipv6Only(m)
			m.Peer, m.fake.sourceErr = "10.1.0.1", syscall.ENETUNREACH
		}, "gids", Fail, "ip address add 10.1.0.2/24 dev eth0"},
		{"only RoCE v1", healthy(), func(m machine) {
			m.fake.probe.GIDs[1].Type = verbs.GIDTypeRoCEv1
			m.fake.interfaces[1].Addrs = nil
			m.fake.interfaces[0].Addrs = append(m.fake.interfaces[0].Addrs, netip.MustParseAddr("10.1.0.1"))
		}, "gids", Fail, "ip address add 10.0.0.1/24 dev eth0"},
		{"MTU above the interface's", healthy(), func(m machine) { m.fake.probe.Port.ActiveMTU = verbs.MTU2048 }, "mtu", Fail, "ip link set eth0 mtu 2152"},
		{"small MTU", healthy(), func(m machine) { m.fake.probe.Port.ActiveMTU, m.fake.interfaces[1].MTU = verbs.MTU512, 700 }, "mtu", Warn, "ip link set eth0 mtu 1500"},
		{"a rule drops what leaves", healthy(), func(m machine) { m.fake.udp = Leaving }, "firewall", Fail, "nft list ruleset"},
		{"a rule drops what arrives, for a user", healthy(), func(m machine) { m.UID, m.fake.udp = 1, Arriving }, "firewall", Fail, "sudo nft list ruleset"},
		{"loopback", healthy(), func(m machine) { m.fake.loopback["rxe0"] = retry }, "loopback", Fail, "rdma_lab explain IBV_WC_RETRY_EXC_ERR"},
		{"lo is down", healthy(), func(m machine) { m.fake.interfaces[0].Up = false }, "loopback", Fail, "ip link set lo up"},
		{"soft0's port is taken", without(), func(m machine) {
			m.Device, m.fake.loopback = "soft0", map[string]error{"soft0": syscall.EADDRINUSE}
		}, "soft", Fail, "ss -lunp 'sport = :4791'"},
		{"rdma_rxe without a device", without(), func(m machine) {
			m.Device, m.fake.loopback = "soft0", map[string]error{"soft0": syscall.EADDRINUSE}
			m.write("sys/module/rdma_rxe/refcnt", "0")
		}, "soft", Fail, "modprobe -r rdma_rxe"},
		{"unknown name", healthy(), func(m machine) { peer(m); m.fake.lookupErr = errors.New("no such host") }, "route", Fail, "getent hosts 10.1.0.2"},
		{"no route", healthy(), func(m machine) { peer(m); m.fake.sourceErr = syscall.ENETUNREACH }, "route", Fail, "ip route add 10.1.0.2 dev eth0"},
		{"route through another interface", healthy(), func(m machine) { peer(m); m.fake.source = netip.MustParseAddr("10.2.0.1") }, "route", Fail, "rdma link add rxe1 type rxe netdev eth1"},
		{"no server", healthy(), func(m machine) { peer(m); m.fake.connectErr = syscall.ECONNREFUSED }, "server", Warn, "rdma_server"},
		{"no host", healthy(), func(m machine) { peer(m); m.fake.connectErr = syscall.EHOSTUNREACH }, "server", Fail, "ping -c 3 10.1.0.2"},
		{"no answer to ARP", healthy(), func(m machine) {
			peer(m)
			m.fake.connectErr = context.DeadlineExceeded
			m.write("proc/net/arp", "IP address HW type Flags HW address\n10.1.0.2 0x1 0x0 00:00:00:00:00:00 * eth0\n")
		}, "server", Fail, "ping -c 3 10.1.0.2"},
		{"another server", healthy(), func(m machine) {
			peer(m)
			m.fake.jobErr = func([]string) error { return errors.WithMessage(oob.ErrForeignPeer, "hello") }
		}, "job", Fail, "rdma_lab doctor 10.1.0.2:PORT"},
		{"large messages are lost", healthy(), func(m machine) {
			peer(m)
			m.fake.jobErr = func(flags []string) error {
				if slices.Contains(flags, "--op=read") {
					return retry
				}
				return nil
			}
		}, "job", Fail, "ping -c 3 -M do -s 1100 10.1.0.2"},
		{"all messages are lost", healthy(), func(m machine) { peer(m); m.fake.jobErr = func([]string) error { return retry } }, "job", Fail, "nft list ruleset"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.with != nil {
				c.with(c.machine)
			}
			list, err := examine(t, c.machine.Host, long)
			i := slices.IndexFunc(list, func(f Finding) bool { return f.Status == Warn || f.Status == Fail || f.Try != "" })
			if i < 0 {
				t.Fatalf("nothing is wrong:\n%s", text(list))
			}
			f := list[i]
			try, _, _ := strings.Cut(f.Try, "  #")
			if f.Check != c.check || f.Status != c.status || try != c.try {
				t.Errorf("%s %s, try: %s; want %s %s, try: %s\n%s", f.Status, f.Check, try, c.status, c.check, c.try, text(list))
			}
			var failed *FailedError
			if is := errors.As(err, &failed); is != (c.status == Fail) || is && failed.Checks[0] != c.check {
				t.Errorf("error: %v", err)
			}
		})
	}
}

func ipv6Only(m machine) {
	m.fake.probe.GIDs[1].GID = verbs.GIDFrom(netip.MustParseAddr("fd00::1"))
	m.fake.interfaces[1].Addrs = []netip.Addr{netip.MustParseAddr("fd00::1")}
}

// TestHangingDriver checks that a call that does not return ends the checks, not the
// program. Only the check's own call hangs, so a slow machine fails no part of the test:
// the limit grows until the checks before the hanging one end in time.
func TestHangingDriver(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	ends := func(t *testing.T, run func()) {
		t.Helper()
		over := make(chan struct{})
		go func() {
			defer close(over)
			run()
		}()
		testkit.Receive(t, over, "end of the doctor, which waits for a call that does not return")
	}
	t.Run("limit", func(t *testing.T) {
		for limit := 200 * time.Millisecond; ; limit *= 2 {
			m := healthy()
			m.fake.hang = hang
			var list []Finding
			var err error
			ends(t, func() { list, err = examine(t, m.Host, limit) })
			last := list[len(list)-1]
			unfinished := strings.Contains(last.Found, "did not end within")
			if strings.Contains(last.Found, "no time is left") || unfinished && last.Check != "open" {
				continue
			}
			if last.Check != "open" || last.Status != Fail || !unfinished {
				t.Errorf("the last finding is not of the check that hangs:\n%s", text(list))
			}
			var failed *FailedError
			if !errors.As(err, &failed) || !slices.Equal(failed.Checks, []string{"open"}) {
				t.Errorf("error: %v", err)
			}
			if len(m.failed) > 0 {
				t.Errorf("the doctor wrote %v while the check still runs", m.failed)
			}
			return
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		started := make(chan struct{})
		go func() {
			<-started
			cancel()
		}()
		ends(t, func() {
			findings, over := within(ctx, Check{"hangs", func(context.Context, *Host) []Finding {
				close(started)
				<-hang
				return nil
			}}, healthy().Host)
			if !over || len(findings) != 1 || findings[0].Status != Fail {
				t.Errorf("%v %+v", over, findings)
			}
		})
	})
	t.Run("cancelled between checks", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := healthy()
		m.fake.hang = hang
		var list []Finding
		err := Run(ctx, m.Host, long, func(f Finding) error {
			list = append(list, f)
			if f.Check == "libraries" { // the next one would hang
				cancel()
			}
			return nil
		})
		if last := list[len(list)-1]; last.Check != "libraries" || !errors.Is(err, context.Canceled) {
			t.Errorf("%v\n%s", err, text(list))
		}
	})
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	m := without()
	if err := Run(t.Context(), m.Host, long, JSON(&b)); err != nil {
		t.Fatal(err)
	}
	var names []string
	for d := json.NewDecoder(&b); d.More(); {
		var f Finding
		if err := d.Decode(&f); err != nil {
			t.Fatal(err)
		}
		names = append(names, f.Check)
	}
	var want []string
	for _, c := range checks {
		want = append(want, c.Name)
	}
	if !slices.Equal(names, want) {
		t.Errorf("checks %q, want %q", names, want)
	}
}

// TestRealSystem looks at this machine, whatever it has.
func TestRealSystem(t *testing.T) {
	h := NewHost(nil)
	h.look()
	lo, is := h.iface("lo")
	if !is || !slices.Contains(lo.Addrs, netip.MustParseAddr("127.0.0.1")) {
		t.Fatalf("lo has no 127.0.0.1: %+v", lo)
	}
	// The kernel takes the ports of outgoing connections from 32768 on, so no connection
	// takes this one after Close.
	var l net.Listener
	err := errors.New("not tried")
	for try := 0; err != nil && try < 100; try++ {
		l, err = net.Listen("tcp", fmt.Sprint("127.0.0.1:", 12000+rand.IntN(6000)))
	}
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	if err := h.Connect(t.Context(), at); err != nil {
		t.Error(err)
	}
	l.Close()
	if err := h.Connect(t.Context(), at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
	if source, err := h.Source(at.Addr()); err != nil || !source.IsLoopback() {
		t.Error(source, err)
	}
	if err := h.OpenFile(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
