// The errnos, whichever call returned them.

package diagnosis

import (
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
)

const memlock = "raise the locked memory limit (ulimit -l unlimited, or LimitMEMLOCK= of the service)"

// anyCall makes the entry of an errno that any call may return. Errors print its remedy.
func anyCall(name string, number syscall.Errno, cause, remedy string) Entry {
	return of("", name, number, cause, remedy)
}

// broad is anyCall with a remedy that is too general for an error's text.
func broad(name string, number syscall.Errno, cause, remedy string) Entry {
	e := anyCall(name, number, cause, remedy)
	e.Broad = true
	return e
}

// locked marks a remedy that ends with the limit of locked memory.
func locked(e Entry) Entry {
	e.Memlock = true
	return e
}

var errnos = []group{{"docs/errors.md", []Entry{
	broad("EPERM", syscall.EPERM, "the user lacks a right, or the objects do not belong together", "run as root, or with the capability that the call needs; use objects of one protection domain"),
	broad("ENOENT", syscall.ENOENT, "the thing that the call names does not exist", "use a name, a number or an index that exists"),
	broad("EINTR", syscall.EINTR, "a signal interrupted the call", "make the call again"),
	anyCall("EIO", syscall.EIO, "the device was removed or reset while it was open", "open the device again: it was removed or reset"),
	broad("EBADF", syscall.EBADF, "the file descriptor is closed, or is of another kind", "use an open descriptor of the kind that the call needs"),
	anyCall("EAGAIN", syscall.EAGAIN, "a limit of the process's cgroup is reached", "raise rdma.max of the process's cgroup, or make fewer objects"),
	locked(anyCall("ENOMEM", syscall.ENOMEM, "memory, or the device's room for objects, ran out; or the limit of locked memory is reached",
		"close objects that are not needed (Device.Query returns the device's limits); or "+memlock)),
	broad("EACCES", syscall.EACCES, "the user may not open the device's file", "give this user access to /dev/infiniband/uverbs*, or run as root"),
	broad("EFAULT", syscall.EFAULT, "an address is not memory of this process, or lacks the right", "use memory that is mapped, and writable if the device writes to it"),
	broad("EBUSY", syscall.EBUSY, "the object is in use: another object needs it, or a call on it is not over", "close the objects that need it first; the error names them"),
	broad("EEXIST", syscall.EEXIST, "the thing exists already", "use another name, or remove the old one first"),
	anyCall("ENODEV", syscall.ENODEV, "the device does not exist, or is gone", "list the devices: this one is gone"),
	broad("EINVAL", syscall.EINVAL, "an argument breaks a rule: a value, a flag, a missing or extra mask bit, or the object's state",
		"look at what the error names; rdma_lab explain CALL EINVAL lists the rules of a call"),
	broad("ENFILE", syscall.ENFILE, "the system has too many open files", "open fewer files, or raise fs.file-max"),
	anyCall("EMFILE", syscall.EMFILE, "the process has too many open files", "raise the limit of open files (ulimit -n)"),
	broad("ENOTTY", syscall.ENOTTY, "the kernel does not know the call", "use a newer kernel, or an older libibverbs"),
	broad("ENOSPC", syscall.ENOSPC, "a table of the device is full, or the kernel's answer did not fit", "make fewer objects; use libibverbs and a kernel of about the same age"),
	broad("EPIPE", syscall.EPIPE, "the peer closed the TCP connection", "read the peer's output, which says why"),
	broad("EOVERFLOW", syscall.EOVERFLOW, "a number is too large for its field", "use a smaller number"),
	broad("EPROTONOSUPPORT", syscall.EPROTONOSUPPORT, "the kernel's driver does not have this call or this protocol", "use a newer kernel, or do without the call"),
	broad("ENOSYS", syscall.ENOSYS, "the kernel or the library does not have this call", "load the kernel's RDMA core (modprobe ib_uverbs); use a newer libibverbs"),
	broad("EOPNOTSUPP", syscall.EOPNOTSUPP, "this device or library does not have the feature", "use what the device has: Device.Query and Device.QueryEx list it"),
	broad("EAFNOSUPPORT", syscall.EAFNOSUPPORT, "the system does not have this address family", "use an address of the other family"),
	broad("EADDRINUSE", syscall.EADDRINUSE, "another process, or the kernel's rdma_rxe, uses the address and port", "use another address or port"),
	broad("EADDRNOTAVAIL", syscall.EADDRNOTAVAIL, "no interface of this host has the address", "use an address that ip address show lists"),
	broad("EMSGSIZE", syscall.EMSGSIZE, "the packet is larger than the interface's MTU", "use a smaller path MTU at both ends"),
	broad("ENOBUFS", syscall.ENOBUFS, "the kernel has no buffer for the packet", "send fewer packets at a time"),
	broad("ECONNREFUSED", syscall.ECONNREFUSED, "no program listens at the address and port", "start the server first; check the port"),
	broad("ECONNRESET", syscall.ECONNRESET, "the peer's program ended, or closed the TCP connection early", "read the peer's output, which says why"),
	broad("ENETDOWN", syscall.ENETDOWN, "the port's network interface is down", "set it up (ip link set dev IFACE up; rdma link shows which)"),
	broad("ENETUNREACH", syscall.ENETUNREACH, "no route leads to the address", "add a route (ip route get ADDRESS), and use addresses of one family"),
	broad("EHOSTUNREACH", syscall.EHOSTUNREACH, "the address does not answer ARP or neighbour discovery", "ping it; check the netmask, the VLAN and the cable"),
	broad("ETIMEDOUT", syscall.ETIMEDOUT, "no answer came in time", "ping the peer's address; look at its firewall"),
	broad("ENODATA", errno.NoData, "the slot of the table is empty", "use a filled slot: rdma_lab gids lists the GIDs"),
}}}
