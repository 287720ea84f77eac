// The errnos of calls on devices, ports and their tables.

package diagnosis

import (
	"strings"
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
)

// of makes the entry of an errno of certain calls, which are separated by spaces.
func of(calls, name string, number syscall.Errno, cause, remedy string) Entry {
	return Entry{Kind: Errno, Calls: strings.Fields(calls), Name: name, Number: int(number), Cause: cause, Remedy: remedy}
}

func einval(calls, cause, remedy string) Entry {
	return of(calls, "EINVAL", syscall.EINVAL, cause, remedy)
}

func enomem(calls, cause, remedy string) Entry {
	return of(calls, "ENOMEM", syscall.ENOMEM, cause, remedy)
}

func unsupported(calls, cause, remedy string) Entry {
	return of(calls, "EOPNOTSUPP", syscall.EOPNOTSUPP, cause, remedy)
}

// in puts an entry into a list of docs/errors.md, with a symptom of its own if that is not "".
func in(s Section, symptom string, e Entry) Entry {
	e.Section, e.Symptom = s, symptom
	return e
}

const aPort = "use a port that exists; ports count from 1"

// finding has the symptoms of devices that are not found.
var finding = []group{{"docs/setup.md", []Entry{
	symptom("no-device", Finding, "no RDMA device", "no driver, or its user-space half is missing",
		"run `modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0`; install the package ibverbs-providers", "ibv_get_device_list", "ibv_open_device", "ENODEV"),
	symptom("no-import", Finding, "`verbs.Open(\"soft0\")`: no such device", "the program does not import the software device",
		"`import _ \"github.com/rawverbs/rawverbs/softroce\"`", "ibv_open_device", "ENODEV"),
	symptom("container", Finding, "devices on the host, none in the container", "/dev/infiniband/uverbsN is not mapped, or the provider package is absent",
		"start the container with `--device /dev/infiniband/uverbs0`, and install the provider package (ibverbs-providers) in it", "ibv_get_device_list", "ibv_open_device", "ENOENT", "ENOSYS"),
	symptom("rdma-link-add", Finding, "`rdma link add` fails", "the module is absent; the interface has a device already (EEXIST) or is in another namespace",
		"run `modprobe rdma_rxe`; on Ubuntu install the package linux-modules-extra", "EEXIST"),
}}}

var deviceCalls = []group{{"docs/setup.md", []Entry{
	of("ibv_get_device_list", "ENOSYS", syscall.ENOSYS, "the kernel's RDMA core is not loaded, or the container does not have its files",
		"load the kernel's RDMA core (modprobe ib_uverbs), and in a container map /dev/infiniband/uverbs*"),
	of("ibv_open_device", "EACCES", syscall.EACCES, "the user may not open the device's file",
		"give this user access to /dev/infiniband/uverbs*, or run as root"),
	of("ibv_open_device", "EPERM", syscall.EPERM, "the user may not open the device's file",
		"give this user access to /dev/infiniband/uverbs*, or run as root"),
	of("ibv_open_device", "ENOENT", syscall.ENOENT, "the device's file or its user-space driver is absent",
		"map /dev/infiniband/uverbs* into the container, and install the provider package (ibverbs-providers)"),
	of("ibv_open_device", "ENODEV", syscall.ENODEV, "no device has this name",
		"use a device that is listed, or the software device: soft:INTERFACE or soft:ADDRESS of this host"),
	unsupported("ibv_query_device_ex", "the device has no extended attributes", "use Device.Query, which every device supports"),
	unsupported("ibv_query_rt_values_ex", "the device's clock cannot be read", "use the host's clock: this device's clock cannot be read"),
}}, {"docs/glossary.md#port", []Entry{
	einval("ibv_query_port counters ibv_get_pkey_index", "the port does not exist", aPort),
	unsupported("counters", "the device has no counters", "use the counters of the port's network interface (ip -s link): this device has no counters"),
}}, {"docs/glossary.md#pkey", []Entry{
	einval("ibv_query_pkey", "the port does not exist, or the index is beyond its table", "use a port that exists (they count from 1), and an index below PortAttr.PKeyTableLen"),
	of("ibv_query_pkey", "ENOENT", syscall.ENOENT, "the port does not exist, or the index is beyond its table",
		"use a port that exists (they count from 1), and an index below PortAttr.PKeyTableLen"),
	of("ibv_get_pkey_index", "ENOENT", syscall.ENOENT, "the port's table does not have the key",
		"use 0xffff, the key of the default partition, or a key that QueryPKey lists: the subnet manager (on RoCE the driver) fills the table"),
}}, {"docs/glossary.md#gid-index", []Entry{
	of("ibv_query_gid_ex", "ENODATA", errno.NoData, "the slot is empty", "use a filled slot: QueryGIDTable lists them"),
	einval("ibv_query_gid_ex", "the port does not exist, or the index is beyond its table", "use a port that exists (they count from 1), and an index within its table"),
}}}
