// What only Linux is asked.

package doctor

import (
	"context"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

func (system) Memlock() (limit int64, exempt bool) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &l); err != nil || l.Cur == unix.RLIM_INFINITY {
		return -1, false
	}
	// Root may have given the capability away, so the effective set counts.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&header, &data[0])
	return int64(l.Cur), err == nil && data[0].Effective&(1<<unix.CAP_IPC_LOCK) != 0
}

// datagrams is how many datagrams a trial sends. Other programs receive fewer meanwhile.
const datagrams = 64

// SendUDP cannot receive the datagrams where rdma_rxe has the port. Then it counts what the
// network namespace receives.
func (system) SendUDP(ctx context.Context, to netip.Addr) (Blocked, error) {
	address := net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, rocePort))
	receiver, err := net.ListenUDP("udp", address)
	if err == nil {
		defer receiver.Close()
	} else if !errors.Is(err, syscall.EADDRINUSE) {
		return NotBlocked, err
	}
	before, err := received()
	if err != nil {
		return NotBlocked, err
	}
	sender, err := net.DialUDP("udp", nil, address)
	if err != nil {
		return NotBlocked, err
	}
	defer sender.Close()
	for range datagrams {
		if _, err := sender.Write([]byte("rdma_lab doctor")); errors.Is(err, syscall.EPERM) {
			return Leaving, nil
		} else if err != nil {
			return NotBlocked, err
		}
	}
	if receiver != nil {
		limit, _ := ctx.Deadline()
		if err := receiver.SetReadDeadline(limit); err != nil {
			return NotBlocked, err
		}
		if _, err := receiver.Read(make([]byte, 64)); err != nil {
			return Arriving, nil
		}
		return NotBlocked, nil
	}
	for {
		now, err := received()
		if err != nil || now >= before+datagrams {
			return NotBlocked, err
		}
		select {
		case <-ctx.Done():
			return Arriving, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// received is how many UDP datagrams the network namespace has received.
func received() (uint64, error) {
	text, err := os.ReadFile("/proc/self/net/snmp")
	if err != nil {
		return 0, err
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "Udp:":
		case names == nil:
			names = fields
		default:
			for i, name := range names {
				if name == "InDatagrams" && i < len(fields) {
					return strconv.ParseUint(fields[i], 10, 64)
				}
			}
		}
	}
	return 0, errors.New("/proc/self/net/snmp has no InDatagrams")
}
