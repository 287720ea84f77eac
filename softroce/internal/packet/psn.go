// Packet sequence numbers and their arithmetic.

package packet

// PSN is a packet sequence number: 24 bits, counted modulo 2^24. BTH.PSN, NewPSN and the
// methods of PSN keep the top byte zero, so PSNs can be compared with ==.
type PSN uint32

const psnMask = 1<<24 - 1

// NewPSN returns the low 24 bits of v.
func NewPSN(v uint32) PSN { return PSN(v & psnMask) }

// Add returns the PSN n packets after p, or -n packets before p if n is negative.
func (p PSN) Add(n int) PSN { return PSN((uint32(p) + uint32(n)) & psnMask) }

// Sub returns the distance from q to p, in [-2^23, 2^23). It is positive if p is after q.
func (p PSN) Sub(q PSN) int { return int(int32((uint32(p)-uint32(q))<<8) >> 8) }

// Before reports whether p precedes q by less than half of the numbers.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }
