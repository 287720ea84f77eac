// The optional interfaces of a provider's objects.

package verbs

import (
	"context"
	"syscall"
)

// ProviderDeviceInformer is an optional interface of a ProviderDevice. A device that can be
// opened by a name that the Provider does not list must implement it.
type ProviderDeviceInformer interface {
	// Info describes the device as [Devices] would.
	Info() DeviceInfo
}

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

// ProviderRuns is an optional interface of a ProviderDevice that sends packets of one length together.
type ProviderRuns interface {
	// Run returns how many packets of a path MTU leave together, at about the cost of one; see [Device.Run].
	Run(mtu int) (packets int)
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

// ProviderCQSleeper is an optional interface of a ProviderCQ that gives work to a waiting
// goroutine: reading the completion channel, or receiving packets.
type ProviderCQSleeper interface {
	// Sleep returns after an event since the last Poll, after the end of ctx or owner, or after
	// Close. It may return earlier. woken yields a value after calls of Wake; gone is closed after
	// Close. Sleep allocates only for a context that differs from that of the last Sleep.
	Sleep(ctx, owner context.Context, woken, gone <-chan struct{})
	// WakeSleeper makes a running Sleep return, if that Sleep does not read woken.
	WakeSleeper()
	// SleepMakesProgress reports whether the device makes progress in the sleeping goroutine.
	SleepMakesProgress() bool
}

// ProviderCQSpinner is an optional interface of a ProviderCQ on which one call with several polls
// costs less than several calls of Poll.
type ProviderCQSpinner interface {
	// Spin polls until there is a completion, at most polls times. polls is at least 1. The rules
	// of Poll hold.
	Spin(wcs []WC, polls int) (int, error)
}

// ProviderCQDriver is an optional interface of a ProviderCQ whose device works in the goroutines that
// wait.
type ProviderCQDriver interface {
	// Drives reports whether DriveOnce can do the device's work. It always returns the same.
	Drives() bool
	// DriveOnce does the work that is due, without waiting: it receives packets and sends what
	// follows. A wait that spins calls it between two polls.
	DriveOnce()
	// DriveEnd is called at the end of the spin.
	DriveEnd()
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

// optionally calls ask with p as an I. It returns EOPNOTSUPP if p does not implement I.
func optionally[I, T any](p any, ask func(I) (T, error)) (answer T, err error) {
	i, err := optional[I](p)
	if err != nil {
		return answer, err
	}
	return ask(i)
}

// queryOptional is query for a verb of an optional interface.
func queryOptional[I, T any](h *handle, p any, op, detail string, ask func(I) (T, error)) (T, error) {
	return query(h, op, detail, func() (T, error) { return optionally(p, ask) })
}

// callOptional is call for a verb of an optional interface.
func callOptional[I any](h *handle, p any, op, detail string, f func(I) error) error {
	return h.call(op, detail, func() error {
		i, err := optional[I](p)
		if err != nil {
			return err
		}
		return f(i)
	})
}
