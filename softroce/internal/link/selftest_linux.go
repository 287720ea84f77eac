package link

import (
	"net/netip"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/softroce/internal/selftest"
)

// testIdentification tests whether packets leave with the identifications that their ICRCs cover. If not, RDMA devices of the
// kernel and of hardware drop them silently. It tests packets that are sent alone and, if GSO is on, bursts. It turns
// GSO off if the burst fails.
func (s *Socket) testIdentification() {
	test, err := selftest.New(s.local.Addr(), func(data []byte, segment int, to netip.AddrPort) error {
		control := appendControl(make([]byte, 0, controlSpace), Destination{Addr: to.Addr()}, segment)
		return onFD(s.conn, func(fd int) error {
			return unix.Sendmsg(fd, data, control, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}, 0)
		})
	})
	if err == nil {
		defer test.Close()
		if err = test.Alone(); err != nil && !errors.Is(err, selftest.ErrNoFilter) {
			s.note("interop with kernel RDMA is off: packets leave with an IPv4 identification other than 0, or without DF (%v); "+
				"try: an IPv6 address", err)
			return
		}
	}
	if err != nil {
		s.note("interop with kernel RDMA is unknown: the self-test cannot run: %v", err)
		return
	}
	if Mode(s.sendMode.Load()) == Segmented {
		if err := test.Burst(); err != nil {
			s.sendMode.Store(uint32(Batched))
			s.note("the packets of a GSO send do not leave with identifications 0, 1, 2 (%v): sending by sendmmsg", err)
		}
	}
}
