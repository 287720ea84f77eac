// Memory of another driver, for regions.

package verbstest

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dmabuf makes a DMA-BUF of n bytes, mapped: from the kernel's udmabuf, or where
// that is missing the memfd that it would be made of, which a device in software
// takes and any other must refuse.
func (e *Env) dmabuf(n int) (fd int, memory []byte) {
	memfd, err := unix.MemfdCreate("rawverbs", unix.MFD_ALLOW_SEALING)
	e.ok(err, "memfd_create")
	e.Cleanup(func() error { return unix.Close(memfd) })
	e.ok(unix.Ftruncate(memfd, int64(n)), "ftruncate")
	memory, err = unix.Mmap(memfd, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	e.ok(err, "mmap")
	e.Cleanup(func() error { return unix.Munmap(memory) })
	driver, err := os.OpenFile("/dev/udmabuf", os.O_RDWR, 0)
	if err != nil {
		return memfd, memory
	}
	defer driver.Close()
	_, err = unix.FcntlInt(uintptr(memfd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	e.ok(err, "sealing")
	create := struct { // struct udmabuf_create
		memfd, flags uint32
		offset, size uint64
	}{uint32(memfd), 1, 0, uint64(n)} // 1 is UDMABUF_FLAGS_CLOEXEC
	const udmabufCreate = 0x40187542 // _IOW('u', 0x42, struct udmabuf_create)
	buf, _, errno := unix.Syscall(unix.SYS_IOCTL, driver.Fd(), udmabufCreate, uintptr(unsafe.Pointer(&create)))
	if errno != 0 {
		e.Fatalf("UDMABUF_CREATE: %v", errno)
	}
	e.Cleanup(func() error { return unix.Close(int(buf)) })
	return int(buf), memory
}
