// Ports: single slots of tables, speed and counters.

package verbs

import (
	"fmt"
	"math/bits"
	"syscall"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
)

// QueryGID reads one slot of a port's GID table. Ports count from 1. ENODATA if the slot is empty,
// EINVAL if the port or the index does not exist.
//
// Implements: int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid),
// int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
func (d *Device) QueryGID(port uint8, index int) (GIDEntry, error) {
	return query(&d.handle, "ibv_query_gid_ex", fmt.Sprintf("port %d, index %d", port, index), func() (GIDEntry, error) {
		attr, err := d.p.QueryPort(port)
		if err != nil {
			return GIDEntry{}, err
		}
		if index < 0 || index >= attr.GIDTableLen {
			return GIDEntry{}, syscall.EINVAL
		}
		table, err := d.p.QueryGIDTable()
		if err != nil {
			return GIDEntry{}, err
		}
		for _, e := range table {
			if e.Port == port && e.Index == index {
				return e, nil
			}
		}
		return GIDEntry{}, errno.NoData
	})
}

// PKeyIndex returns the slot of a port's partition key table that holds pkey. The membership bit
// (0x8000) is ignored. pkey is in host order. If there are several such slots, PKeyIndex prefers
// full membership, because limited members cannot reach each other. ENOENT if no slot has the
// key, EINVAL if the port does not exist.
//
// Implements: int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
func (d *Device) PKeyIndex(port uint8, pkey uint16) (int, error) {
	return query(&d.handle, "ibv_get_pkey_index", fmt.Sprintf("port %d, pkey %#04x", port, pkey), func() (int, error) {
		attr, err := d.p.QueryPort(port)
		if err != nil {
			return 0, err
		}
		const full, partition = 0x8000, 0x7fff
		limited := -1
		for i := range attr.PKeyTableLen {
			have, err := d.p.QueryPKey(port, i)
			if err != nil {
				return 0, err
			}
			switch {
			case have&partition != pkey&partition, have&partition == 0:
			case have&full != 0:
				return i, nil
			case limited < 0:
				limited = i
			}
		}
		if limited < 0 {
			return 0, syscall.ENOENT
		}
		return limited, nil
	})
}

// QueryCounters reads a port's counters by name. The driver defines the names. For the kernel's
// devices they are the files in the directories counters and hw_counters of /sys/class/infiniband,
// the device's hw_counters too, and count since the device was loaded. A soft device counts since it was opened, for all of its
// addresses together. EINVAL if the port does not exist, errors.ErrUnsupported if the device has no
// counters.
//
// Reads: hw_counters, ports/N/counters and ports/N/hw_counters of sysfs; libibverbs has no call.
func (d *Device) QueryCounters(port uint8) (map[string]uint64, error) {
	return queryOptional(&d.handle, d.p, "counters", fmt.Sprintf("port %d", port), func(p ProviderCounters) (map[string]uint64, error) {
		if _, err := d.p.QueryPort(port); err != nil {
			return nil, err
		}
		return p.QueryCounters(port)
	})
}

// laneSpeed is the speed of one lane in units of 0.1 Gbit/s, for each bit of ActiveSpeed: SDR, DDR,
// QDR, FDR10, FDR, EDR, HDR, NDR.
var laneSpeed = [8]int{25, 50, 100, 100, 140, 250, 500, 1000}

// Lanes returns the number of lanes in use, or 0 for an unknown code.
func (a *PortAttr) Lanes() int {
	switch a.ActiveWidth {
	case 1:
		return 1
	case 2:
		return 4
	case 4:
		return 8
	case 8:
		return 12
	case 16:
		return 2
	}
	return 0
}

// GbitPerSecond returns the link's signalling rate: all lanes together, in 10^9 bits per second. It
// returns 0 for unknown codes.
func (a *PortAttr) GbitPerSecond() float64 {
	if bits.OnesCount8(a.ActiveSpeed) != 1 {
		return 0
	}
	return float64(a.Lanes()*laneSpeed[bits.TrailingZeros8(a.ActiveSpeed)]) / 10
}
