// The optional interfaces of a provider's objects.

package verbs

import "syscall"

// ProviderDeviceEx is an optional interface of a ProviderDevice that has extended attributes.
type ProviderDeviceEx interface {
	// QueryDeviceEx reads the limits and the extended attributes. Attributes that the
	// device does not have are zero.
	QueryDeviceEx() (DeviceAttrEx, error)
}

// ProviderCounters is an optional interface of a ProviderDevice that has port counters.
type ProviderCounters interface {
	// QueryCounters returns the counters of a port by name.
	QueryCounters(port uint8) (map[string]uint64, error)
}

// ProviderClock is an optional interface of a ProviderDevice whose clock can be read.
type ProviderClock interface {
	// QueryRawClock reads the clock, in ticks.
	QueryRawClock() (ticks uint64, err error)
}

// ProviderDmabuf is an optional interface of a ProviderPD that registers another driver's
// memory.
type ProviderDmabuf interface {
	// RegDmabufMR registers length bytes of the DMA-BUF fd, from offset on, under the
	// addresses from iova on. It does not keep fd.
	RegDmabufMR(fd int, offset, length, iova uint64, access Access) (ProviderMR, error)
}

// ProviderNullMR is an optional interface of a ProviderPD that makes null regions.
type ProviderNullMR interface {
	// AllocNullMR makes a region that has no memory: see [PD.AllocNullMR].
	AllocNullMR() (ProviderMR, error)
}

// ProviderAdvise is an optional interface of a ProviderPD that takes advice about regions.
type ProviderAdvise interface {
	// AdviseMR gives the advice. sgl is not empty; AdviseMR does not keep it.
	AdviseMR(advice MRAdvice, flags MRAdviceFlags, sgl []SGE) error
}

// ProviderRereg is an optional interface of a ProviderMR that can be changed.
type ProviderRereg interface {
	// Rereg changes the properties that flags names. pd is a domain of the same device. buf keeps
	// its address. After an error the region is unchanged, unless lost is true: then it can only
	// be closed.
	Rereg(flags ReregFlags, pd ProviderPD, buf []byte, iova uint64, access Access) (lost bool, err error)
}

// ProviderECE is an optional interface of a ProviderQP that has enhanced connection
// establishment.
type ProviderECE interface {
	// QueryECE returns the options.
	QueryECE() (ECE, error)
	// SetECE sets the options that the peer sent.
	SetECE(ECE) error
}

// ProviderMcast is an optional interface of a ProviderQP that can join multicast groups.
type ProviderMcast interface {
	// AttachMcast makes the queue pair a member of a group. It does nothing for a member.
	AttachMcast(gid GID, lid uint16) error
	// DetachMcast ends the membership. Close of an attached queue pair returns EBUSY.
	DetachMcast(gid GID, lid uint16) error
}

// ProviderMissedReceives is an optional interface of a ProviderQP that counts messages without a receive.
type ProviderMissedReceives interface {
	// MissedReceives returns how many UD and UC messages were dropped because no receive was posted.
	MissedReceives() uint64
}

// ProviderDataOrder is an optional interface of a ProviderQP that reports the order in
// which data is written.
type ProviderDataOrder interface {
	// DataInOrder reports whether an operation's data is written from first byte to last.
	DataInOrder(op Opcode) (bool, error)
}

// ProviderPostPath is an optional interface of a ProviderQP that can post sends in two ways.
type ProviderPostPath interface {
	// PostPath returns the value in use.
	PostPath() PostPath
}

// optional returns p as an I, or EOPNOTSUPP if p does not implement I.
func optional[I any](p any) (I, error) {
	i, ok := p.(I)
	if !ok {
		return i, syscall.EOPNOTSUPP
	}
	return i, nil
}
