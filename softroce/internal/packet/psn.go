// This file is the arithmetic of packet sequence numbers.

package packet

// PSN is a packet sequence number: 24 bits, counted modulo 2^24. Values come
// from BTH.PSN, NewPSN or the methods here, which all keep the top byte zero,
// so two PSNs may be compared by ==.
type PSN uint32

const psnMask = 1<<24 - 1

// NewPSN returns the low 24 bits of v.
func NewPSN(v uint32) PSN { return PSN(v & psnMask) }

// Add returns the PSN n packets after p, or before it if n is negative.
func (p PSN) Add(n int) PSN { return PSN((uint32(p) + uint32(n)) & psnMask) }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return p.Add(1) }

// Sub returns how many packets p is after q, in [-2^23, 2^23): the shorter way
// round the circle.
func (p PSN) Sub(q PSN) int { return int(int32((uint32(p)-uint32(q))<<8) >> 8) }

// Before says whether p precedes q, within half the circle.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }

// After says whether p follows q, within half the circle.
func (p PSN) After(q PSN) bool { return p.Sub(q) > 0 }
