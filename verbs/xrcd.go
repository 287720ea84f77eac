// XRC domains: what processes share whose XRC queue pairs use each other's shared
// receive queues. Few devices have them, and rdma_rxe is none.

package verbs

import (
	"os"
	"syscall"
)

// XRCD is an XRC domain (struct ibv_xrcd): what processes share whose XRC queue pairs
// use each other's shared receive queues. This package makes no such queue pairs:
// the domain is for what else of the process does. [Device.OpenXRCD] opens it; it is
// valid until Close.
//
// Its methods may be called by several goroutines at once.
type XRCD struct {
	handle
	p XRCProvider
}

// OpenXRCD opens the XRC domain that belongs to a file, and makes it if it is the
// first to do so: processes that open one file share the domain. nil makes one that
// nobody shares. errors.ErrUnsupported if the device has none ([CapXRC]). The file is
// not kept, and may be closed at once.
//
// Implements: struct ibv_xrcd *ibv_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *xrcd_init_attr)
func (d *Device) OpenXRCD(file *os.File) (*XRCD, error) {
	x := &XRCD{}
	fd, detail := -1, "of this process"
	if file != nil {
		fd, detail = int(file.Fd()), "of "+file.Name()
	}
	p, err := born(&x.handle, "XRCD", "ibv_open_xrcd", detail, func() (XRCProvider, error) {
		p, err := optional[XRCDProvider](d.p)
		if err != nil {
			return nil, err
		}
		return p.OpenXRCD(fd, syscall.O_CREAT)
	}, &d.handle)
	if err != nil {
		return nil, err
	}
	x.p = p
	return x, nil
}

// Close closes the domain; it lives on while others have it open. Closing again does
// nothing.
//
// Implements: int ibv_close_xrcd(struct ibv_xrcd *xrcd)
func (x *XRCD) Close() error { return x.close("ibv_close_xrcd", x.p.Close) }
