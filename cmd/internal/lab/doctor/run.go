// The checks that run something: on this machine, and with HOST.

package doctor

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/verbs"
)

func loopback(ctx context.Context, h *Host, d *device) Finding {
	if lo, is := h.iface("lo"); is && !lo.Up {
		return fail(h.asRoot("ip link set lo up"), "the interface lo is down, so %s cannot be tried", d.name)
	}
	ctx, cancel := context.WithTimeout(ctx, h.limit*2/5)
	defer cancel()
	if _, err := h.Loopback(ctx, d.name, d.gid); err != nil {
		return fail(h.explain(err), "%s cannot WRITE to itself: %v", d.name, err)
	}
	return ok("%s WRITEs to itself and READs back", d.name)
}

// explain is the command that says more about an error.
func (h *Host) explain(err error) string {
	var completion *verbs.WCError
	var errno syscall.Errno
	switch {
	case errors.As(err, &completion):
		return "rdma_lab explain " + completion.Status.String()
	case errors.Is(err, context.DeadlineExceeded):
		return h.patiently()
	case errors.As(err, &errno):
		return fmt.Sprintf("rdma_lab explain errno %d", int(errno))
	}
	return "rdma_lab devices"
}

func soft(ctx context.Context, h *Host) (f Finding) {
	name := "soft0"
	preloaded := false
	if isSoft(h.Device) {
		name = h.Device
	} else if listed, _ := h.Listed(); h.Preloaded != "" && slices.Contains(listed, h.Preloaded) {
		name, preloaded = h.Preloaded, true
	}
	defer func() { f.Device = name }()
	if lo, is := h.iface("lo"); is && !lo.Up {
		return fail(h.asRoot("ip link set lo up"), "the interface lo is down, so %s cannot work", name)
	}
	ctx, cancel := context.WithTimeout(ctx, h.limit*2/5)
	defer cancel()
	notes, err := h.Loopback(ctx, name, -1)
	defer func() {
		if err == nil && len(notes) > 0 {
			f.Found += "; but " + strings.Join(notes, "; ")
		}
	}()
	switch {
	case err == nil && preloaded:
		return ok("%s works through libibverbs; rawverbs run gives it to every program that is started here", name)
	case err == nil && name == "soft0":
		return ok("%s works; it needs no kernel device, and reaches this machine only (soft:INTERFACE reaches others)", name)
	case err == nil:
		return ok("%s works", name)
	case errors.Is(err, syscall.EADDRINUSE) && h.exists("sys/module/rdma_rxe") && name == "soft0" && len(h.devices)+len(h.others) > 0:
		return ok("soft0, the device in software, cannot run beside rdma_rxe, which has UDP port 4791")
	case errors.Is(err, syscall.EADDRINUSE) && h.exists("sys/module/rdma_rxe"):
		return fail(h.asRoot("modprobe -r rdma_rxe"), "%s: rdma_rxe has UDP port 4791, and keeps it without a device", name)
	case errors.Is(err, syscall.EADDRINUSE):
		return fail("ss -lunp 'sport = :4791'  # names the program that has the port", "%s: UDP port 4791 is taken", name)
	default:
		return fail(h.explain(err), "%s does not work: %v", name, err)
	}
}

func route(ctx context.Context, h *Host) Finding {
	if h.Peer == "" {
		return skip("no HOST given; rdma_lab doctor HOST also checks the way to HOST")
	}
	usable := slices.DeleteFunc(slices.Clone(h.devices), func(d *device) bool {
		return d.failedOf([]string{"files", "libraries", "open", "memlock", "namespace", "port", "gids"}) != ""
	})
	asked := h.Device != "" && !isSoft(h.Device)
	if len(usable) == 0 && (asked || len(h.devices) > 0 || h.failed["soft"]) {
		return skip("no device passed the checks before")
	}
	addr, err := h.Lookup(ctx, h.Peer)
	if err != nil {
		return fail("getent hosts "+quoted(h.Peer), "the name %s has no address: %v", h.Peer, err)
	}
	h.peer = addr
	source, err := h.Source(addr)
	if err != nil {
		return fail(h.asRoot("ip route add "+quoted(addr.String())+" dev "+cmp.Or(h.netdevForRXE(), "INTERFACE"))+"  # or via a router", "no route to %v: %v", addr, err)
	}
	link, _ := h.owner(source)
	via, here := cmp.Or(link.Name, "an unknown interface"), source.IsLoopback() || addr == source
	if isSoft(h.Device) {
		h.dialed = h.Device
		return ok("the route to %v goes through %s", addr, via)
	}
	if len(h.devices) == 0 {
		h.dialed = "soft:" + via
		if here {
			h.dialed = "soft0"
		}
		return ok("the route to %v goes through %s; with no kernel device, %s can take it", addr, via, h.dialed)
	}
	for _, d := range usable {
		if d.netdev == via || d.netdev == "" || here {
			h.dialed = d.name
			return ok("the route to %v goes through %s, and %s is on %s", addr, via, d.name, cmp.Or(d.netdev, "InfiniBand"))
		}
	}
	d := usable[0]
	try := h.asRoot("ip route replace " + quoted(addr.String()) + " dev " + d.netdev)
	if d.driver == "rxe" {
		try = h.asRoot("rdma link add " + h.freeName() + " type rxe netdev " + via)
	}
	return fail(try, "the route to %v goes through %s, but %s is on %s", addr, via, d.name, d.netdev)
}

// freeName is the first name of an rxe device that is free.
func (h *Host) freeName() string {
	for i := 0; ; i++ {
		if name := fmt.Sprintf("rxe%d", i); !h.exists(class + "/" + name) {
			return name
		}
	}
}

func server(ctx context.Context, h *Host) Finding {
	switch {
	case h.Peer == "":
		return quietly("no HOST given")
	case !h.peer.IsValid() || h.failed["route"]:
		return skip("no route was found")
	}
	ctx, cancel := context.WithTimeout(ctx, h.limit/4)
	defer cancel()
	to := netip.AddrPortFrom(h.peer, uint16(h.Port))
	err := h.Connect(ctx, to)
	ping := "ping -c 3 " + quoted(h.peer.String())
	switch {
	case err == nil:
		return ok("TCP port %d of %v answers", h.Port, h.peer)
	case errors.Is(err, syscall.ECONNREFUSED):
		h.dialed = ""
		return warn(h.serverThere(), "%v is there, but nothing listens on its TCP port %d", h.peer, h.Port)
	case errors.Is(err, syscall.EHOSTUNREACH) || h.unresolved(h.peer):
		return fail(ping+"  # check the address, the cable and the VLAN", "%v does not answer ARP, so no packet reaches it", h.peer)
	}
	return fail(fmt.Sprintf("%s  # if it answers, open TCP port %d there", ping, h.Port), "%v does not answer on TCP port %d: %v", h.peer, h.Port, err)
}

// unresolved reports whether the kernel has asked for a neighbour's link address and got no answer.
func (h *Host) unresolved(addr netip.Addr) bool {
	for line := range strings.Lines(h.text("proc/net/arp")) {
		field := strings.Fields(line)
		if len(field) > 3 && field[0] == addr.String() && field[2] == "0x0" {
			return true
		}
	}
	return false
}

// small is a job of single packets. large are jobs of messages of many packets, one in each
// direction.
var (
	small = []string{"--job=write-read", "--text=rdma_lab doctor"}
	large = [][]string{
		{"--job=bulk", "--op=write", "--size=64K", "--chunk=16K", "--outstanding=2", "--signal-every=1"},
		{"--job=bulk", "--op=read", "--size=64K", "--chunk=16K", "--outstanding=2", "--signal-every=1"},
	}
)

func hostJob(ctx context.Context, h *Host) Finding {
	switch {
	case h.Peer == "":
		return quietly("no HOST given")
	case h.dialed == "" || h.failed["route"] || h.failed["server"]:
		return skip("no server was reached")
	case h.failed["firewall"]:
		return skip("the check firewall failed")
	}
	to := netip.AddrPortFrom(h.peer, uint16(h.Port))
	if err := h.job(ctx, to, small); err != nil {
		return h.jobFailed(to, err)
	}
	for _, job := range large {
		var completion *verbs.WCError
		switch err := h.job(ctx, to, job); {
		case err == nil:
		case errors.Is(err, syscall.ECONNREFUSED): // rdma_server --once
			return ok("%s WRITEs a text to %v and READs it back; then the server ended", h.dialed, to)
		case errors.As(err, &completion):
			return fail("ping -c 3 -M do -s 1100 "+quoted(h.peer.String())+"  # then --mtu 512 at both ends, or a larger MTU on the way",
				"small messages to %v arrive, and large ones do not: the network's MTU is below the path MTU: %v", h.peer, err)
		default:
			return warn(h.clientHere(job), "a text went to %v and back, but a larger job failed: %v", to, err)
		}
	}
	return ok("%s WRITEs to %v and READs from it, small messages and large ones", h.dialed, to)
}

// verdict says what can run here, if no check failed.
func verdict(_ context.Context, h *Host) []Finding {
	if len(h.failed) > 0 {
		return nil // the error names the checks
	}
	var names []string
	for _, d := range h.devices {
		names = append(names, d.name)
	}
	return []Finding{ok("you can run everything on %s", cmp.Or(strings.Join(names, ", "), h.Device, "soft0"))}
}

// job runs one of the jobs with HOST, for a fifth of the doctor's time at most.
func (h *Host) job(ctx context.Context, to netip.AddrPort, flags []string) error {
	ctx, cancel := context.WithTimeout(ctx, h.limit/5)
	defer cancel()
	return h.Job(ctx, h.dialed, to, flags...)
}

// unanswered reports whether err is that of a work request: it failed, or it had no answer in the job's time, which may be
// shorter than all of the device's repeats. A step of the exchange over TCP that took too long is neither.
func unanswered(err error) bool {
	var completion *verbs.WCError
	var exchange *oob.TimeoutError
	return errors.As(err, &completion) || errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &exchange)
}

// jobFailed explains why the first job failed.
func (h *Host) jobFailed(to netip.AddrPort, err error) Finding {
	var refused *oob.PeerError
	switch {
	case errors.Is(err, oob.ErrForeignPeer):
		return fail("rdma_lab doctor "+quoted(net.JoinHostPort(h.Peer, "PORT")), "%v is not an rdma_server: %v", to, err)
	case unanswered(err):
		return fail(h.listRules()+"; "+quoted(h.Peer)+"'s firewall may have such a rule, too: run the doctor there", "TCP reaches %v, and RDMA does not: %v", to, err)
	case errors.As(err, &refused):
		return warn(h.doctorThere(), "the server refuses a job: %v", err)
	}
	return fail(h.doctorThere(), "the job with %v failed: %v", to, err)
}
