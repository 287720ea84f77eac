//go:build !linux

package verbstest

import (
	"os"

	"golang.org/x/sys/unix"
)

// dmabuf makes a file of n bytes, mapped, since this system has no DMA-BUFs.
func (e *Env) dmabuf(n int) (fd int, memory []byte) {
	file, err := os.CreateTemp("", "rawverbs")
	e.ok(err, "CreateTemp")
	e.Cleanup(file.Close)
	e.ok(os.Remove(file.Name()), "Remove")
	e.ok(file.Truncate(int64(n)), "Truncate")
	memory, err = unix.Mmap(int(file.Fd()), 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	e.ok(err, "mmap")
	e.Cleanup(func() error { return unix.Munmap(memory) })
	return int(file.Fd()), memory
}
