// Memory that another driver owns: a DMA-BUF, such as a GPU's memory.

package verbs

import "fmt"

// RegDmabufMR registers length bytes, from offset on, of the DMA-BUF that the file
// descriptor stands for, under the addresses from iova on; on most devices iova's
// place within a page must be offset's. The descriptor may be closed at once. The
// region has no Bytes: whoever owns the memory knows how to look into it.
// The software device maps the descriptor, and so takes any that can be mapped, a
// memfd too.
//
// EBADF for a descriptor that is none (or not open), EINVAL for bytes that are not
// within the DMA-BUF, errors.ErrUnsupported if the device cannot do it.
//
// Implements: struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
func (pd *PD) RegDmabufMR(fd int, offset uint64, length int, iova uint64, access Access) (*MR, error) {
	mr := &MR{pd: pd, addr: iova, length: length, access: access}
	detail := fmt.Sprintf("fd %d, %d bytes from %#x, %s", fd, length, offset, access.Name())
	p, err := makeObject(&mr.handle, "MR", "ibv_reg_dmabuf_mr", detail, func() (ProviderMR, error) {
		p, err := optional[ProviderDmabuf](pd.p)
		if err != nil {
			return nil, err
		}
		return p.RegDmabufMR(fd, offset, uint64(max(length, 0)), iova, access)
	}, &pd.handle)
	if err != nil {
		return nil, err
	}
	mr.p = p
	return mr, nil
}
