// Ports: one slot of a table, how fast the port is, what it has counted.

package verbs

import (
	"fmt"
	"math/bits"
	"syscall"

	"github.com/rawverbs/rawverbs/internal/errno"
)

// QueryGID reads one slot of a port's GID table. ENODATA for an empty one, EINVAL
// for a port or an index that there is not. Ports count from 1.
//
// Implements: int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid),
// int ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index, struct ibv_gid_entry *entry, uint32_t flags)
func (d *Device) QueryGID(port uint8, index int) (GIDEntry, error) {
	return query(d, "ibv_query_gid_ex", fmt.Sprintf("port %d, index %d", port, index), func() (GIDEntry, error) {
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

// PKeyIndex finds the slot of a port's partition table that holds a key, whose
// membership bit (0x8000) does not count; both are in host order. A slot with full
// membership is preferred, because limited members cannot reach each other. ENOENT if no
// slot has the key, EINVAL for a port that there is not.
//
// Implements: int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
func (d *Device) PKeyIndex(port uint8, pkey uint16) (int, error) {
	return query(d, "ibv_get_pkey_index", fmt.Sprintf("port %d, pkey %#04x", port, pkey), func() (int, error) {
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

// QueryCounters reads what a port has counted since the device was loaded, by the
// names that the driver gives: for the kernel's devices those of the directories
// counters and hw_counters of /sys/class/infiniband, of which each has what its
// maker chose. A soft device counts from when it was opened, by all of its addresses.
// EINVAL for a port that there is not, errors.ErrUnsupported from a device that does not
// count.
//
// Reads: ports/N/counters and ports/N/hw_counters of sysfs; libibverbs has no call.
func (d *Device) QueryCounters(port uint8) (map[string]uint64, error) {
	return query(d, "counters", fmt.Sprintf("port %d", port), func() (map[string]uint64, error) {
		p, err := optional[ProviderCounters](d.p)
		if err != nil {
			return nil, err
		}
		if _, err := d.p.QueryPort(port); err != nil {
			return nil, err
		}
		return p.QueryCounters(port)
	})
}

// laneSpeed is the speed of one lane in units of 0.1 Gbit/s, by the bit of
// ActiveSpeed: SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR.
var laneSpeed = [8]int{25, 50, 100, 100, 140, 250, 500, 1000}

// Lanes is how many lanes the link uses, 0 for a code that is unknown.
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

// GbitPerSecond is the link's signalling rate, of all lanes together in 10^9 bits a
// second; 0 if its codes are unknown.
func (a *PortAttr) GbitPerSecond() float64 {
	if bits.OnesCount8(a.ActiveSpeed) != 1 {
		return 0
	}
	return float64(a.Lanes()*laneSpeed[bits.TrailingZeros8(a.ActiveSpeed)]) / 10
}
