// CRC-32 as a linear map. The ICRC of a packet can therefore be composed of the contributions
// of its parts, and the contribution of zero bytes can be removed again.

package packet

import "hash/crc32"

// A CRC register is a polynomial over GF(2) modulo crc32.IEEE, reflected: bit 31 is the
// coefficient of x^0. Appending a zero byte to a message multiplies the register by x^8.
// Appending a byte v also adds the contribution of v. So a register is the sum (exclusive or)
// of the contributions of all bytes, each multiplied by x^8 for every byte that follows it.
//
// hash/crc32 keeps registers complemented. The difference of two registers is the same either
// way, so only whole registers need the complement.

// contribution[v] is what byte v adds to a register, at a fixed distance from the end.
type contribution [256]uint32

// contributionAt returns the contributions of a byte with d bytes after it.
func contributionAt(d int) (c contribution) {
	for v := 1; v < len(c); v++ {
		if rest := v & (v - 1); rest != 0 {
			c[v] = c[rest] ^ c[v^rest] // the sum of its single bits
			continue
		}
		c[v] = crc32.IEEETable[v]
		for range d {
			c[v] = appendZero(c[v])
		}
	}
	return c
}

// appendZero returns the register r after one more zero byte: r·x^8.
func appendZero(r uint32) uint32 { return crc32.IEEETable[byte(r)] ^ r>>8 }

// field16 is what a big-endian 16-bit field adds to a register.
type field16 struct{ high, low contribution }

// field16At returns the contributions of a field with d bytes after it.
func field16At(d int) field16 {
	return field16{high: contributionAt(d + 1), low: contributionAt(d)}
}

func (f *field16) of(v uint16) uint32 { return f.high[v>>8] ^ f.low[byte(v)] }

// multiply returns a·b.
func multiply(a, b uint32) (p uint32) {
	for range 32 {
		p ^= a & -(b >> 31)
		b <<= 1
		a = a>>1 ^ crc32.IEEE&-(a&1)
	}
	return p
}

// xInverse8 is x^-8. Multiplying by it undoes appendZero.
var xInverse8 = func() uint32 {
	r := uint32(1 << 31)
	for range 8 {
		// Multiplication by x shifts right, and adds the polynomial if a 1 falls out. Then the
		// polynomial's own bit 31 is set, so bit 31 shows whether to undo the addition.
		if r>>31 != 0 {
			r = (r^crc32.IEEE)<<1 | 1
		} else {
			r <<= 1
		}
	}
	return r
}()

// inversePowers has x^(-8n) for n from 0 to 255 (low) and for the multiples of 256 (high), so
// that any n below 2^16 takes two multiplications.
var inversePowers = func() (t struct{ low, high [256]uint32 }) {
	fill := func(a *[256]uint32, step uint32) (next uint32) {
		p := uint32(1 << 31)
		for i := range a {
			a[i] = p
			p = multiply(p, step)
		}
		return p
	}
	fill(&t.high, fill(&t.low, xInverse8))
	return t
}()

// removeZeros returns the register that becomes r after n more zero bytes: r·x^(-8n). n is
// below 2^16, the longest IP packet.
func removeZeros(r uint32, n int) uint32 {
	return multiply(multiply(r, inversePowers.low[byte(n)]), inversePowers.high[n>>8])
}
