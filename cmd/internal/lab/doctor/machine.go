// The checks of the machine: modules, devices, files, libraries, memory, namespaces.

package doctor

import (
	"cmp"
	"context"
	stderrors "errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"
)

// drivers are the modules of devices, by the beginning of a device's name.
var drivers = map[string]string{
	"rxe": "rdma_rxe", "siw": "siw", "mlx5": "mlx5_ib", "mlx4": "mlx4_ib", "bnxt": "bnxt_re",
	"irdma": "irdma", "rocep": "irdma", "iwp": "irdma", "qedr": "qedr", "cxgb4": "iw_cxgb4",
	"hfi1": "hfi1", "efa": "efa", "erdma": "erdma", "hns": "hns_roce_hw_v2", "mana": "mana_ib",
}

// noDevice makes the finding of a machine without the device: it matters if the user asked
// for the device, because soft0 works without the kernel.
func (h *Host) noDevice(try, format string, args ...any) Finding {
	f := fail(try, format, args...)
	if h.Device == "" {
		f.Status = Skip
		f.Found += "; soft0 needs none (rdma_lab doctor --device rxe0 says how to get one)"
	}
	return f
}

func modules(_ context.Context, h *Host) Finding {
	if isSoft(h.Device) {
		return ok("%s needs no kernel module", h.Device)
	}
	if len(h.devices) > 0 {
		if !h.exists("sys/class/infiniband_verbs") {
			return fail(h.asRoot("modprobe ib_uverbs"), "the module ib_uverbs is not loaded, so no program can open a device")
		}
		return ok("ib_uverbs and %s", h.driverList())
	}
	if len(h.others) > 0 {
		return ok("ib_uverbs")
	}
	module := "rdma_rxe"
	for prefix, name := range drivers {
		if strings.HasPrefix(h.Device, prefix) {
			module = name
		}
	}
	kernel := h.read("proc/sys/kernel/osrelease")
	switch in := h.container(); {
	case h.exists("sys/module/" + module):
		return ok("%s is loaded", module)
	case in != "":
		return h.noDevice(h.addRXE(h.Device)+"  # on the host of the container, with its NETDEV", "the module %s is not loaded on the host of this container (%s)", module, in)
	case !h.hasModule(kernel, module):
		return h.noDevice(h.modulePackage(kernel), "the kernel %s has no module %s", kernel, module)
	case module == "rdma_rxe" || module == "siw":
		return h.noDevice(h.addRXE(h.Device), "the module %s is not loaded", module)
	}
	return h.noDevice(h.asRoot("modprobe "+module), "the module %s is not loaded", module)
}

func (h *Host) driverList() string {
	var names []string
	for _, d := range h.devices {
		if !slices.Contains(names, d.driver) {
			names = append(names, d.driver)
		}
	}
	return strings.Join(names, ", ")
}

// hasModule reports whether modprobe can find a module. It returns true if it cannot know.
func (h *Host) hasModule(kernel, module string) bool {
	list, err := fs.ReadFile(h.Files, path.Join("lib/modules", kernel, "modules.dep"))
	return err != nil && h.exists("lib/modules/"+kernel) || strings.Contains(string(list), "/"+module+".ko")
}

// modulePackage is the command that installs the module's package.
func (h *Host) modulePackage(kernel string) string {
	switch id := h.text("etc/os-release"); {
	case strings.Contains(id, "ubuntu"):
		return h.asRoot("apt-get install linux-modules-extra-" + kernel)
	case strings.Contains(id, "debian"):
		return h.asRoot("apt-get install linux-image-amd64") + "  # and reboot into that kernel"
	}
	return "dnf provides '*/rdma_rxe.ko*'  # names the package; or use soft0, which needs no module"
}

func devices(_ context.Context, h *Host) Finding {
	switch {
	case isSoft(h.Device):
		return ok("%s is a device of this program", h.Device)
	case len(h.devices) > 0:
		var list []string
		for _, d := range h.devices {
			text := d.name + " (" + d.driver
			if d.netdev != "" {
				text += " on " + d.netdev
			}
			list = append(list, text+")")
		}
		return ok("%s", strings.Join(list, ", "))
	case len(h.others) > 0:
		return fail("rdma_lab doctor --device "+h.others[0], "there is no device %s; this machine has %s", h.Device, strings.Join(h.others, ", "))
	case h.failed["modules"]:
		return skip("the check modules failed")
	case h.exclusive():
		return h.noDevice(h.inNamespaceOf("1"), "this network namespace has no RDMA device, and each device belongs to one namespace (rdma system: netns exclusive)")
	case !h.exists("sys/module/rdma_rxe"):
		return skip("no module of a device is loaded, so there are no devices to check")
	}
	return h.noDevice(h.addRXE(h.Device), "the kernel has no RDMA device")
}

// exclusive reports whether each device belongs to one network namespace, and this process
// runs in another namespace than process 1.
func (h *Host) exclusive() bool {
	own, err1 := fs.ReadLink(h.Files, "proc/self/ns/net")
	first, err2 := fs.ReadLink(h.Files, "proc/1/ns/net")
	return h.read("sys/module/ib_core/parameters/netns_mode") == "N" && (err1 != nil || err2 != nil || own != first)
}

func files(_ context.Context, h *Host, d *device) Finding {
	if d.uverbs == "" {
		return fail(h.asRoot("modprobe ib_uverbs"), "%s has no uverbs device", d.name)
	}
	file := "/dev/infiniband/" + d.uverbs
	err := h.OpenFile(file)
	mapped := "docker run --device " + file + " …  # start the container in this way"
	switch {
	case err == nil:
		return ok("%s opens (%s)", file, d.name)
	case errors.Is(err, fs.ErrNotExist) && h.container() != "":
		return fail(mapped, "%s is not in this container, so no program can open %s", file, d.name)
	case errors.Is(err, fs.ErrNotExist):
		major, minor, _ := strings.Cut(h.read("sys/class/infiniband_verbs", d.uverbs, "dev"), ":")
		return fail(h.asRoot("mkdir -p /dev/infiniband", fmt.Sprintf("mknod -m 666 %s c %s %s", file, major, minor)),
			"%s does not exist, so no program can open %s", file, d.name)
	case errors.Is(err, syscall.EACCES):
		return fail(h.asRoot("chmod 666 "+file), "%s: permission denied", file)
	case errors.Is(err, syscall.EPERM) && h.container() != "":
		return fail(mapped, "the container may not open %s", file)
	case errors.Is(err, syscall.EPERM):
		return fail(h.inNamespaceOf("1"), "%s: operation not permitted; perhaps the device belongs to another network namespace (rdma system)", file)
	}
	return fail("rdma link show", "open %s: %v", file, err)
}

func libraries(_ context.Context, h *Host, d *device) Finding {
	listed, err := h.Listed()
	switch {
	case slices.Contains(listed, d.name):
		return ok("libibverbs and its provider for %s", d.name)
	case err != nil && errors.Is(err, stderrors.ErrUnsupported):
		return fail(h.install("libibverbs1 ibverbs-providers", "libibverbs"), "libibverbs is missing: %v", err)
	case err != nil:
		return fail(h.install("ibverbs-providers", "libibverbs"), "libibverbs does not list %s: %v", d.name, err)
	}
	return fail(h.install("ibverbs-providers", "libibverbs"), "libibverbs has no provider for %s (driver %s)", d.name, d.driver)
}

func open(_ context.Context, h *Host, d *device) Finding {
	h.examine(d)
	if err := d.probe.OpenErr; err != nil {
		return fail("rdma link show "+d.name, "%s does not open: %v", d.name, err)
	}
	return ok("%s opens", d.name)
}

// enough is the locked memory that the jobs take with their usual sizes, in bytes.
const enough = 64 << 20

func memlock(_ context.Context, h *Host, d *device) Finding {
	limit, exempt := h.Memlock()
	now := fmt.Sprintf("the limit of locked memory is %d KiB", limit>>10)
	switch {
	case limit < 0:
		now = "the limit of locked memory is unlimited"
	case exempt:
		now += ", which CAP_IPC_LOCK lifts"
	}
	raise := fmt.Sprintf("%s  # for this shell; for good: * - memlock unlimited in /etc/security/limits.d/rdma.conf",
		h.asRoot(fmt.Sprintf("prlimit --pid %d --memlock=unlimited:unlimited", h.Parent)))
	err := d.probe.Memory
	if h.container() != "" {
		raise = "docker run --ulimit memlock=-1 …  # start the container in this way"
	}
	switch {
	case err != nil && (errors.Is(err, syscall.ENOMEM) || limit == 0 && errors.Is(err, syscall.EPERM)) && limit >= 0 && !exempt:
		return fail(raise, "%s, so %s cannot register memory", now, d.name)
	case err != nil:
		return fail("free --mebi; rdma resource show", "%s cannot register memory: %v; %s", d.name, err, now)
	case limit >= 0 && limit < enough && !exempt:
		return warn(raise, "%s: large buffers cannot be registered", now)
	}
	return ok("%s; %s registers memory", now, d.name)
}

func namespace(ctx context.Context, h *Host, d *device) Finding {
	where := "this machine"
	if in := h.container(); in != "" {
		where = "this container (" + in + ")"
	}
	if d.netdev == "" {
		return ok("%s in %s has no network interface", d.name, where)
	}
	_, here := h.iface(d.netdev)
	mine := func() bool { // an address of the interface is a GID
		globals := slices.DeleteFunc(slices.Clone(d.gids), func(g gid) bool { return g.addr.IsLinkLocalUnicast() })
		return len(globals) == 0 || slices.ContainsFunc(globals, func(g gid) bool { _, is := h.owner(g.addr); return is })
	}
	// A GID stays for a moment after its address.
	if here && h.settle(ctx, func() bool { return mine() || h.examine(d) && mine() }) {
		return ok("%s, the interface of %s, is in this network namespace", d.netdev, d.name)
	}
	if h.container() != "" {
		return fail("docker run --network host …  # start the container in this way", "%s, the interface of %s, is not in the network namespace of this container", d.netdev, d.name)
	}
	return fail(h.inNamespaceOf(h.processNear(d)), "%s, the interface of %s, is in another network namespace, so its GIDs are not addresses of this one", d.netdev, d.name)
}

// inNamespaceOf is the command that runs the doctor in the network namespace of a process.
func (h *Host) inNamespaceOf(pid string) string {
	return h.asRoot("nsenter --target "+pid+" --net --mount "+h.again()) + "  # run the other programs there, too"
}

// processNear returns the process with the lowest number that sees the interface of a
// device with its addresses, "1" if no process does.
func (h *Host) processNear(d *device) string {
	var pids []string
	for _, name := range h.entries("proc") {
		if strings.Trim(name, "0123456789") == "" {
			pids = append(pids, name)
		}
	}
	slices.SortFunc(pids, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, pid := range pids {
		interfaces, routes := h.text("proc", pid, "net/dev"), h.text("proc", pid, "net/fib_trie")
		if !strings.Contains(interfaces, " "+d.netdev+":") && !strings.Contains(interfaces, "\n"+d.netdev+":") {
			continue
		}
		known := func(g gid) bool { return g.addr.Is4() && strings.Contains(routes, g.addr.String()+"\n") }
		if !slices.ContainsFunc(d.gids, func(g gid) bool { return g.addr.Is4() }) || slices.ContainsFunc(d.gids, known) {
			return pid
		}
	}
	return "1"
}
