//go:build !linux

package doctor

import (
	"context"
	stderrors "errors"
	"net/netip"
)

func (system) Memlock() (limit int64, exempt bool) { return -1, false }

func (system) SendUDP(context.Context, netip.Addr) (Blocked, error) {
	return NotBlocked, stderrors.ErrUnsupported
}
