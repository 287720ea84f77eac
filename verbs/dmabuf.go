// Memory that another driver owns, as a DMA-BUF, such as a GPU's memory.

package verbs

import "fmt"

// RegDmabufMR registers length bytes of a DMA-BUF, starting at offset. fd is the DMA-BUF's file
// descriptor and may be closed after the call. SGEs and the peer address the bytes from iova on; on
// most devices iova and offset must have the same offset within a page. [MR.Bytes] of the region
// returns nil: access the memory through its owner. The software device maps the descriptor, so it
// accepts every descriptor that can be mapped, such as a memfd.
//
// EBADF if fd is not an open DMA-BUF, EINVAL if the bytes are not within the DMA-BUF,
// errors.ErrUnsupported if the device cannot register a DMA-BUF.
//
// Implements: struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
func (pd *PD) RegDmabufMR(fd int, offset uint64, length int, iova uint64, access Access) (*MR, error) {
	mr := &MR{pd: pd, addr: iova, length: length, access: access}
	detail := fmt.Sprintf("fd %d, %d bytes from %#x, %s", fd, length, offset, access.Name())
	return makeObject(mr, &mr.handle, &mr.p, "MR", "ibv_reg_dmabuf_mr", detail, func() (ProviderMR, error) {
		return optionally(pd.p, func(p ProviderDmabuf) (ProviderMR, error) {
			return p.RegDmabufMR(fd, offset, uint64(max(length, 0)), iova, access)
		})
	}, &pd.handle)
}
