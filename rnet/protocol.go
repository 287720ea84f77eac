// The protocol's numbers: the immediates and the parameters in the hello. docs/rnet-protocol.md
// describes them byte by byte.

package rnet

import (
	"strconv"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// The job and the parameters in the hello, and the name of the region with the ring.
const (
	jobName  = "rnet"
	version  = "1"
	ringName = "ring"

	paramVersion  = "version"
	paramRing     = "ring"     // bytes, a power of two
	paramReceives = "receives" // receives that an end keeps posted
)

// Sizes of rings, in bytes.
const (
	minRing     = 64 << 10
	maxRing     = 16 << 20
	defaultRing = 2 << 20
)

const (
	unitsPerRing = 512       // free space is counted in units; a ring has this many
	maxMessage   = 256 << 10 // and at most an eighth of a ring
	receives     = 512       // posted at this end
	recvBatch    = 64        // receives posted at a time
	minReceives  = 4 * recvBatch
	maxReceives  = 16 << 10
	reserved     = 64  // of the peer's receives, for control messages
	tellMessages = 128 // messages received before the peer must know that their receives are posted again
)

// An immediate's fields. Bit 31 distinguishes a control message from data:
//
//	data     0 | 10 bits: units freed | 21 bits: length
//	control  1 | FIN | RST | 3 bits: 0 | 16 bits: receives posted again | 10 bits: units freed
const (
	immControl = 1 << 31
	immFIN     = 1 << 30
	immRST     = 1 << 29
	immZero    = 7 << 26

	lengthBits  = 21
	unitBits    = 10
	maxUnits    = 1<<unitBits - 1
	maxMessages = 1<<16 - 1
)

// arrival is what an immediate says.
type arrival struct {
	control, fin, rst bool
	length            uint64 // of data
	units             uint64 // of the receiver's staging ring that are free again
	messages          int    // receives that the sender has posted again
}

func (a arrival) imm() uint32 {
	if !a.control {
		return uint32(a.units)<<lengthBits | uint32(a.length)
	}
	imm := uint32(immControl) | uint32(a.messages)<<unitBits | uint32(a.units)
	if a.fin {
		imm |= immFIN
	}
	if a.rst {
		imm |= immRST
	}
	return imm
}

func parse(imm uint32) (arrival, error) {
	if imm&immControl == 0 {
		return arrival{length: uint64(imm & (1<<lengthBits - 1)), units: uint64(imm >> lengthBits)}, nil
	}
	if imm&immZero != 0 {
		return arrival{}, errors.Errorf("the immediate %#x has bits that must be 0", imm)
	}
	return arrival{control: true, fin: imm&immFIN != 0, rst: imm&immRST != 0,
		messages: int(imm >> unitBits & maxMessages), units: uint64(imm & maxUnits)}, nil
}

// terms are what both ends agreed on.
type terms struct {
	ring     uint64 // bytes of each of the two rings
	receives int    // that the peer keeps posted
}

func helloParams(ring int) map[string]string {
	return map[string]string{paramVersion: version, paramRing: strconv.Itoa(ring), paramReceives: strconv.Itoa(receives)}
}

// agree returns the terms with a peer that sent this hello. The smaller ring counts.
func agree(ring int, hello oob.Hello) (terms, error) {
	if v := hello.Params[paramVersion]; hello.Job != jobName || v != version {
		return terms{}, errors.Errorf("the peer speaks version %q of the rnet protocol, for the job %q, and this end version %q; try: the same release of rawverbs at both ends", v, hello.Job, version)
	}
	theirs, err := param(hello, paramRing, minRing, maxRing)
	if err != nil {
		return terms{}, err
	}
	if !isPowerOfTwo(theirs) {
		return terms{}, errors.Errorf("the peer's ring has %d bytes, which is not a power of two", theirs)
	}
	recvs, err := param(hello, paramReceives, minReceives, maxReceives)
	return terms{uint64(min(ring, theirs)), recvs}, err
}

func param(hello oob.Hello, name string, least, most int) (int, error) {
	n, err := strconv.Atoi(hello.Params[name])
	if err != nil || n < least || n > most {
		return 0, errors.Errorf("the peer's hello has %s=%q, which is not a number from %d to %d", name, hello.Params[name], least, most)
	}
	return n, nil
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }
