// Memory: regions, DMA-BUFs, memory windows and advice.

package softroce

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/transport"
	"github.com/rawverbs/rawverbs/verbs"
)

// mr is a memory region.
type mr struct {
	*transport.MR
	d      *device
	mapped []byte // mapping of a DMA-BUF, unmapped by Close
}

func (p *pd) RegMR(buf []byte, iova uint64, access verbs.Access) (verbs.ProviderMR, error) {
	return p.newMR(p.pd.RegisterAt(buf, iova, access))
}

// AllocNullMR makes a region without memory.
func (p *pd) AllocNullMR() (verbs.ProviderMR, error) { return p.newMR(p.pd.NullMR()) }

func (p *pd) newMR(m *transport.MR, err error) (verbs.ProviderMR, error) {
	if err != nil {
		return nil, err
	}
	return &mr{MR: m, d: p.d}, nil
}

// RegDmabufMR maps the DMA-BUF, because here the CPU moves the data.
func (p *pd) RegDmabufMR(fd int, offset, length, iova uint64, access verbs.Access) (verbs.ProviderMR, error) {
	into := int(offset % uint64(os.Getpagesize()))
	if length == 0 || length > 1<<46 || offset > 1<<46 {
		return nil, syscall.EINVAL
	}
	// A mapping beyond the end of a file succeeds, but reading it kills the process.
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return nil, err
	}
	if offset+length > uint64(file.Size) {
		return nil, syscall.EINVAL
	}
	protection := unix.PROT_READ
	if access&verbs.AccessLocalWrite != 0 {
		protection |= unix.PROT_WRITE
	}
	mapped, err := unix.Mmap(fd, int64(offset)-int64(into), into+int(length), protection, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	m, err := p.pd.RegisterAt(mapped[into:], iova, access)
	if err != nil {
		_ = unix.Munmap(mapped) // report the error of RegisterAt
		return nil, err
	}
	return &mr{MR: m, d: p.d, mapped: mapped}, nil
}

func (m *mr) Rereg(flags verbs.ReregFlags, domain verbs.ProviderPD, buf []byte, iova uint64, access verbs.Access) (lost bool, err error) {
	if m.mapped != nil {
		return false, syscall.EOPNOTSUPP // the caller does not own its memory
	}
	return false, m.MR.Rereg(domain.(*pd).pd, buf, iova, access)
}

// Close sends before what other goroutines were to send of the region: hardware has sent it by then. Close unmaps a
// DMA-BUF. If the system refuses, Close may be called again.
func (m *mr) Close() error {
	m.d.waitSent(m.Unsent)
	if err := m.MR.Close(); err != nil || m.mapped == nil {
		return err
	}
	return unix.Munmap(m.mapped)
}

// AdviseMR passes the advice to the system, which may follow it at any time. Pages that are
// absent come on demand, so nothing else is needed.
func (p *pd) AdviseMR(advice verbs.MRAdvice, flags verbs.MRAdviceFlags, sgl []verbs.SGE) error {
	if advice > verbs.AdvisePrefetchNoFault {
		return syscall.EOPNOTSUPP
	}
	if flags&^verbs.AdviseFlush != 0 {
		return syscall.EINVAL
	}
	need := verbs.Access(0)
	if advice == verbs.AdvisePrefetchWrite {
		need = verbs.AccessLocalWrite
	}
	for _, s := range sgl {
		var err error
		if !p.pd.With(s, need, func(b []byte) { err = prefetch(b) }) {
			return syscall.EFAULT
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// prefetch advises the system to load the pages of b.
func prefetch(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	// A number and not a pointer, because the beginning of the page may lie outside of b.
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	before := start % uintptr(os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, start-before, before+uintptr(len(b)), unix.MADV_WILLNEED)
	runtime.KeepAlive(b)
	if errno != 0 {
		return errno
	}
	return nil
}

// orError keeps a nil pointer from becoming an interface that is not nil.
func orError[I any, T any](object *T, err error) (I, error) {
	if err != nil {
		var none I
		return none, err
	}
	return any(object).(I), nil
}

func (p *pd) AllocMW(t verbs.MWType) (verbs.ProviderMW, error) {
	return orError[verbs.ProviderMW](p.pd.AllocMW(t))
}
