// This file is the two 5-bit codes which stand for durations: the RNR NAK
// timer of an AETH and the local ACK timeout of a queue pair.

package wire

import "time"

// rnrDelays is the RNR NAK timer field (spec table "Encoding for RNR NAK Timer
// Field"), in units of 10 µs. Code 0 is the longest, not the shortest.
var rnrDelays = [32]uint32{
	65536, 1, 2, 3, 4, 6, 8, 12,
	16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072,
	4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
}

const rnrUnit = 10 * time.Microsecond

// RNRDelay returns how long a requester waits after an RNR NAK with the timer
// code t, of which the low 5 bits count: 10 µs to 655.36 ms.
func RNRDelay(t uint8) time.Duration {
	return time.Duration(rnrDelays[t&31]) * rnrUnit
}

// RNRTimer returns the code of the shortest RNR delay that is at least d, and
// code 0 (655.36 ms) when none is.
func RNRTimer(d time.Duration) uint8 {
	for t := uint8(1); t < 32; t++ {
		if RNRDelay(t) >= d {
			return t
		}
	}
	return 0
}

// ackTimeoutUnit is the local ACK timeout of code 0, were it not "off".
const ackTimeoutUnit = 4096 * time.Nanosecond

// ACKTimeout returns the local ACK timeout of the code t, of which the low 5
// bits count: 4.096 µs · 2^t. Code 0 turns the timer off, and gives 0.
func ACKTimeout(t uint8) time.Duration {
	if t &= 31; t == 0 {
		return 0
	}
	return ackTimeoutUnit << t
}

// ACKTimeoutCode returns the code of the shortest local ACK timeout that is at
// least d, 31 (2 h 26 min) when none is, and 0 (off) when d is not positive.
func ACKTimeoutCode(d time.Duration) uint8 {
	if d <= 0 {
		return 0
	}
	for t := uint8(1); t < 31; t++ {
		if ACKTimeout(t) >= d {
			return t
		}
	}
	return 31
}
