// Latency: one message at a time. A sample is the time from one post to the next: for SEND and
// WRITE a message to the peer and one back, for READ and atomics one request.

package measure

import (
	"sync/atomic"
	"unsafe"

	"github.com/rawverbs/rawverbs/verbs"
)

// more reports whether there are more messages after the first n of one kind.
func (r *Run) more(n int64) bool {
	return r.Duration > 0 && !r.over() || r.Duration == 0 && n < int64(r.Iterations)
}

// pingPongSends waits for the peer's message and sends the next. The client sends first.
func (r *Run) pingPongSends() error {
	x := &r.pairs[0]
	if r.Client {
		r.period.start()
	}
	for started := r.Client; r.more(x.sent) || r.more(x.received); {
		if r.more(x.received) && (x.sent > 0 || !r.Client) {
			if err := r.takePing(x, &started); err != nil {
				return err
			}
		}
		if !r.more(x.sent) {
			continue
		}
		x.sent++
		wr := &x.sends[0]
		wr.Flags &^= verbs.SendSignaled
		if x.posted-int64(x.reposts) <= x.received { // no receive is posted for the answer
			if err := x.flush(); err != nil {
				return err
			}
		}
		signaled := x.sent%int64(r.CQMod) == 0 || r.Duration == 0 && x.sent == int64(r.Iterations)
		if signaled {
			wr.Flags |= verbs.SendSignaled
		}
		if err := r.sample(x); err != nil {
			return err
		}
		if x.reposts == pollBatch { // post receives while the peer is busy
			if err := x.flush(); err != nil {
				return err
			}
		}
		if signaled {
			if err := r.awaitSend(); err != nil {
				return err
			}
		}
	}
	return nil
}

// takePing waits for a message. It prepares another receive if more messages are to come than
// receives are posted. The server's time begins with its first message.
func (r *Run) takePing(x *pair, started *bool) error {
	for {
		n, err := r.poll(r.on.RecvCQ)
		if err != nil {
			return err
		}
		if n == 0 {
			if r.over() {
				return nil
			}
			continue
		}
		if !*started {
			*started = true
			r.period.start()
		}
		x.received += int64(n)
		r.count(int64(n))
		for range n {
			if r.Duration > 0 || x.posted < int64(r.Iterations) {
				if err := r.makeReceive(x); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// awaitSend waits for the completion of a request. It returns when the duration is over,
// because the peer may have left.
func (r *Run) awaitSend() error {
	if r.early > 0 {
		r.early--
		return nil
	}
	for {
		if n, err := r.poll(r.on.SendCQ); n > 0 || err != nil || r.over() {
			return err
		}
	}
}

// watch runs after looks at this end's memory that found nothing. A device that this goroutine must
// serve is served by a poll, which may take the completion of this end's last WRITE.
func (r *Run) watch(looks int) error {
	if !r.drives {
		return r.idle(looks)
	}
	n, err := r.look(r.on.SendCQ)
	r.early += n
	return err
}

// pingPongWrites waits until the peer's WRITE has changed the last byte of this end's memory to
// the message's number, and then WRITEs its own. As in perftest, the client waits first and the
// server WRITEs first, unlike with SEND.
func (r *Run) pingPongWrites() error {
	x := &r.pairs[0]
	mine := &r.on.Memory.Bytes()[r.size-1]
	theirs := watchByte(r.on.Memory.Bytes(), r.RemoteOffset(0)+r.size-1)
	looks := pollsAtOnce
	if r.drives {
		looks = 1
	}
	r.early = 0
	r.period.start()
	for r.more(x.sent) || r.more(x.received) || r.more(x.completed) {
		if r.more(x.received) && (x.sent > 0 || r.Client) {
			x.received++
			for !theirs.becomes(byte(x.received), looks) {
				if r.over() {
					return nil
				}
				if err := r.watch(looks); err != nil {
					return err
				}
			}
		}
		if r.over() {
			return nil
		}
		if r.more(x.sent) {
			x.sent++
			*mine = byte(x.sent)
			x.sends[0].Flags |= verbs.SendSignaled
			if err := r.sample(x); err != nil {
				return err
			}
		}
		if r.more(x.completed) {
			if err := r.awaitSend(); err != nil {
				return err
			}
			x.completed++
			r.count(1)
		}
	}
	return nil
}

// oneByOne posts a READ or an atomic and waits for its completion.
func (r *Run) oneByOne() error {
	x := &r.pairs[0]
	x.sends[0].Flags |= verbs.SendSignaled
	r.period.start()
	for r.more(x.sent) {
		x.sent++
		if err := r.sample(x); err != nil {
			return err
		}
		if err := r.awaitSend(); err != nil {
			return err
		}
		r.count(1)
	}
	return nil
}

// sample posts, and records the time of the post. It processes the time after the post, while
// the message is on its way.
func (r *Run) sample(x *pair) error {
	counts, now := r.Duration == 0 || r.period.phase.Load() == phaseSample, r.now()
	err := r.post(x)
	if counts {
		r.latency.post(now)
	}
	return err
}

// watched is a byte that the device changes. It is read atomically as part of its word, so that
// the compiler reads it in each iteration.
type watched struct {
	word *uint32
	at   int // index in the word
}

func watchByte(memory []byte, off int) watched {
	return watched{(*uint32)(unsafe.Pointer(&memory[off&^3])), off & 3}
}

// becomes looks up to looks times whether the byte has the value.
func (w watched) becomes(value byte, looks int) bool {
	for range looks {
		if w.load() == value {
			return true
		}
	}
	return false
}

func (w watched) load() byte {
	word := atomic.LoadUint32(w.word)
	return (*[4]byte)(unsafe.Pointer(&word))[w.at]
}
