// Package wire is the core of the simulated networks: events in the order of their time (queue.go), and packets on a
// wire that loses, duplicates, damages, delays and reorders them. It has no clock: the time is an argument. The same
// calls have the same results.
//
// Its users add the ends and the clock: the tests of package transport, those of package softroce, and package simulate,
// which takes the queue only: its links have a rate, and its switch has buffers, marks and losses of its own.
package wire

import (
	"math/rand/v2"
	"time"
)

// Faults are what happens to packets. The zero Faults lets each packet arrive at once.
type Faults struct {
	Loss      float64 // probability that a packet is lost
	Duplicate float64 // probability that a packet arrives twice
	Corrupt   float64 // probability that one bit that the ICRC covers is inverted
	Reorder   float64 // probability that a packet is late, so that later packets overtake it

	Delay time.Duration // of each packet
	Late  time.Duration // greatest additional delay of a late packet
}

// Statistics counts packets.
type Statistics struct {
	Sent, Lost, Duplicated, Corrupted, Reordered uint64
}

// Packet is a packet on its way. Of is what the caller notes of it.
type Packet[T any] struct {
	Of   T
	Data []byte // from BTH to ICRC
}

// Wire has packets on their way.
type Wire[T any] struct {
	Statistics Statistics
	Buffers    // of the packets; a Packet's Data may be freed

	rand   *rand.Rand
	flying Queue[Packet[T]]
}

// New returns a wire whose faults r decides.
func New[T any](r *rand.Rand) *Wire[T] { return &Wire[T]{rand: r} }

// Send puts a copy of a packet with its ICRC on the wire.
func (w *Wire[T]) Send(now time.Duration, f *Faults, of T, raw []byte) {
	w.Statistics.Sent++
	copies := 1
	if w.happens(f.Loss, &w.Statistics.Lost) {
		copies = 0
	} else if w.happens(f.Duplicate, &w.Statistics.Duplicated) {
		copies = 2
	}
	for range copies {
		data := w.Copy(raw)
		if w.happens(f.Corrupt, &w.Statistics.Corrupted) {
			w.corrupt(data)
		}
		at := now + f.Delay
		if w.happens(f.Reorder, &w.Statistics.Reordered) {
			at += time.Duration(w.rand.Int64N(int64(f.Late) + 1))
		}
		w.flying.Push(at, Packet[T]{of, data})
	}
}

// happens returns true with probability p, and counts it. A probability of 0 takes no random number, so a fault that
// is absent does not change the others.
func (w *Wire[T]) happens(p float64, count *uint64) bool {
	if p <= 0 || w.rand.Float64() >= p {
		return false
	}
	*count++
	return true
}

// corrupt inverts one bit.
func (w *Wire[T]) corrupt(data []byte) {
	const uncovered = 4 // the byte with FECN and BECN, which the ICRC does not cover
	i := w.rand.IntN(len(data) - 1)
	if i >= uncovered {
		i++
	}
	data[i] ^= 1 << w.rand.IntN(8)
}

// Next returns when the next packet arrives, or Never.
func (w *Wire[T]) Next() time.Duration { return w.flying.Next() }

// Take takes the next packet that has arrived from the wire.
func (w *Wire[T]) Take(now time.Duration) (p Packet[T], ok bool) {
	if w.flying.Next() > now {
		return p, false
	}
	_, p = w.flying.Pop()
	return p, true
}

// Buffers are buffers for packets that were freed.
type Buffers [][]byte

// Copy returns a copy of a packet.
func (b *Buffers) Copy(raw []byte) (data []byte) {
	if last := len(*b) - 1; last >= 0 {
		data, *b = (*b)[last], (*b)[:last]
	}
	return append(data, raw...)
}

// Free gives a copy back, for others. It need not be called.
func (b *Buffers) Free(data []byte) { *b = append(*b, data[:0]) }
