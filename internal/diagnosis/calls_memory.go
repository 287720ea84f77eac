// The errnos of calls on protection domains, memory and memory windows.

package diagnosis

import "syscall"

const unbind = "invalidate or close the memory windows that are bound to the region"

var memoryCalls = []group{{"docs/glossary.md#pd", []Entry{
	enomem("ibv_alloc_pd", "the device has no more domains", "close domains: the device has DeviceAttr.MaxPD of them"),
}}, {"docs/memory-and-gc.md", []Entry{
	in(Finding, "", locked(enomem("ibv_reg_mr", "the limit of locked memory, which the error prints, is reached", memlock))),
	in(Finding, "", locked(of("ibv_reg_mr", "EPERM", syscall.EPERM, "the limit of locked memory is 0", memlock))),
	in(Finding, "", of("ibv_reg_mr", "EAGAIN", syscall.EAGAIN, "the cgroup's rdma.max is reached", "raise rdma.max of the process's cgroup, or register fewer regions")),
	einval("ibv_reg_mr", "the rights do not go together, or the device cannot register the length",
		"give LOCAL_WRITE together with REMOTE_WRITE or REMOTE_ATOMIC, and a length the device can register"),
	of("ibv_reg_mr", "EFAULT", syscall.EFAULT, "the range is not memory of this process, or is not writable", "use memory that is mapped and writable"),
	unsupported("ibv_reg_mr", "the device does not have one of the rights",
		"ask for fewer rights: DeviceAttr.CapFlags and Device.QueryEx show which rights the device has (ON_DEMAND: DeviceAttrEx.ODP)"),
	of("ibv_dereg_mr ibv_rereg_mr", "EBUSY", syscall.EBUSY, "a memory window is bound to the region", unbind),
	einval("ibv_dereg_mr", "a memory window is bound to the region", unbind),
	einval("ibv_rereg_mr", "no flag says what changes, or the field of a flag is not set",
		"set flags that say what changes, and the field of each flag: non-empty memory, a PD, a legal set of rights"),
	unsupported("ibv_rereg_mr", "the device cannot change a region", "close the region and register the memory again: this device cannot change a region"),
	of("ibv_reg_dmabuf_mr", "EBADF", syscall.EBADF, "the descriptor is closed, or is not a DMA-BUF", "use the descriptor of a DMA-BUF that is open"),
	einval("ibv_reg_dmabuf_mr", "the range is not within the DMA-BUF, or iova and offset differ within their page",
		"use bytes within the DMA-BUF, and an iova with the same offset within its page as the offset argument"),
	unsupported("ibv_reg_dmabuf_mr", "the device cannot register a DMA-BUF", "map the buffer and register the mapping with RegMR: this device cannot register a DMA-BUF"),
	unsupported("ibv_advise_mr", "the device does not take this advice", "leave the call out: advice only saves time, and this device does not take this advice"),
	einval("ibv_advise_mr", "the list of SGEs is empty, or a flag is unknown", "give at least one SGE, and no flag other than AdviseFlush"),
	of("ibv_advise_mr", "EFAULT", syscall.EFAULT, "an SGE is not within a region, or the region lacks LOCAL_WRITE",
		"use SGEs within regions of the domain, with LOCAL_WRITE for AdvisePrefetchWrite"),
	of("ibv_advise_mr", "ENOENT", syscall.ENOENT, "an SGE names no region, or a region that is pinned", "use SGEs within regions of the domain, registered with ON_DEMAND"),
}}, {"docs/glossary.md#mw", []Entry{
	unsupported("ibv_alloc_mw", "the device has no windows of this type", "register a separate region for each part: this device has no windows of this type (DeviceAttr.CapFlags)"),
	enomem("ibv_alloc_mw", "the device has no more windows", "close windows: the device has DeviceAttr.MaxMW of them"),
	einval("ibv_alloc_mw", "the type is neither 1 nor 2", "use a window of type 1 or 2"),
	einval("ibv_bind_mw", "the window is of type 2, the bind has no region, or the queue pair is not in RTS",
		"use a window of type 1 (type 2 is bound by OpBindMW), a region even for 0 bytes, and a queue pair in RTS"),
	of("ibv_bind_mw", "EPERM", syscall.EPERM, "window and region are of different protection domains", "use a window and a region of the same protection domain"),
	enomem("ibv_bind_mw", "the send queue is full", "poll completions before posting more (the send queue is full)"),
	unsupported("ibv_bind_mw", "the device cannot bind windows of type 1", "use a window of type 2 and OpBindMW: this device cannot bind windows of type 1"),
}}}
