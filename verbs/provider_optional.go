// What a provider's objects may have besides: interfaces that they implement or do
// not. Where one is missing, the call answers EOPNOTSUPP, which is
// errors.ErrUnsupported. The contract is that of provider.go.

package verbs

import "syscall"

// DeviceExProvider is a device that reports more than its limits.
type DeviceExProvider interface {
	// QueryDeviceEx reads the limits and the rest; what there is not is zero.
	QueryDeviceEx() (DeviceAttrEx, error)
}

// CounterProvider is a device that counts.
type CounterProvider interface {
	// QueryCounters returns the counters of a port by name.
	QueryCounters(port uint8) (map[string]uint64, error)
}

// ClockProvider is a device whose clock can be read.
type ClockProvider interface {
	// QueryRawClock reads it, in ticks.
	QueryRawClock() (ticks uint64, err error)
}

// DmabufProvider is a domain that registers another driver's memory.
type DmabufProvider interface {
	// RegDmabufMR registers length bytes of the DMA-BUF fd, from offset on, under the
	// addresses from iova on. It does not keep fd.
	RegDmabufMR(fd int, offset, length, iova uint64, access Access) (MRProvider, error)
}

// AdviseProvider is a domain that takes advice about regions.
type AdviseProvider interface {
	// AdviseMR gives the advice; sgl is not empty, and not kept.
	AdviseMR(advice MRAdvice, flags MRAdviceFlags, sgl []SGE) error
}

// ReregProvider is a region that can be changed.
type ReregProvider interface {
	// Rereg changes what flags names; pd is a provider of the same device, buf stays
	// where it is. After an error the region is as before, unless lost says that it
	// can only be closed.
	Rereg(flags ReregFlags, pd PDProvider, buf []byte, iova uint64, access Access) (lost bool, err error)
}

// ECEProvider is a queue pair with enhanced connection establishment.
type ECEProvider interface {
	// QueryECE returns the options.
	QueryECE() (ECE, error)
	// SetECE sets those that the peer sent.
	SetECE(ECE) error
}

// DataOrderProvider is a queue pair that reports the order in which data is written.
type DataOrderProvider interface {
	// DataInOrder says whether an operation's data is written from first byte to last.
	DataInOrder(op Opcode) (bool, error)
}

// PostPathProvider is a queue pair whose sends go one of two ways.
type PostPathProvider interface {
	// PostPath is the way taken.
	PostPath() PostPath
}

// optional is p as an I, or EOPNOTSUPP.
func optional[I any](p any) (I, error) {
	i, ok := p.(I)
	if !ok {
		return i, syscall.EOPNOTSUPP
	}
	return i, nil
}
