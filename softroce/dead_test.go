// A peer that is gone, beside others that send.

package softroce_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// besideStreams lets four WRITE streams come to a device, until stop is called.
func besideStreams(tb testing.TB, to *verbs.Device) (stop func()) {
	from := openSoft(tb, "soft0")
	var done sync.WaitGroup
	var stopped atomic.Bool
	for range 4 {
		s := newStream(tb, from, to, verbs.OpRDMAWrite, mib)
		done.Go(func() {
			for !stopped.Load() {
				s.run(tb, inQueue)
			}
		})
	}
	return func() {
		stopped.Store(true)
		done.Wait()
	}
}

// loseWith makes a queue pair of dev, whose peer is gone after one message. It posts a SEND with an ACK timeout.
func loseWith(tb testing.TB, dev *verbs.Device, timeout uint8) *oneEnd {
	a, b := newOneEndOn(tb, dev), newOneEndOn(tb, openSoft(tb, "soft0"))
	a.timeout = timeout
	a.connect(b)
	b.connect(a)
	a.send(receiveBytes)
	a.want(verbs.WCSuccess)
	a.ok(b.qp.Machine(nil).ToReset())
	a.send(receiveBytes)
	return a
}

// TestDeadPeerBesideStreams: streams from another device fill a device's socket. A dead peer is noticed there before one that
// has eight times its ACK timeout, at a device without traffic.
func TestDeadPeerBesideStreams(t *testing.T) {
	x, idle := openSoft(t, "soft0"), openSoft(t, "soft0")
	defer besideStreams(t, x)()
	long := loseWith(t, idle, 17)
	loseWith(t, x, 14).want(verbs.WCRetryExcErr)
	if n, err := long.cq.Poll(make([]verbs.WC, 1)); n != 0 || err != nil {
		t.Errorf("the peer with the long timeout was noticed first (%v)", err)
	}
}

// BenchmarkDeadPeer gives the time until a dead peer is noticed, alone and beside streams. Without other load on the host it is
// 1.8 s: a TIMEOUT of 14 and seven retries.
func BenchmarkDeadPeer(b *testing.B) {
	for name, streams := range map[string]bool{"alone": false, "beside streams": true} {
		b.Run(name, func(b *testing.B) {
			x := openSoft(b, "soft0")
			if streams {
				defer besideStreams(b, x)()
			}
			for b.Loop() {
				b.StopTimer()
				a := loseWith(b, x, 14)
				b.StartTimer()
				a.want(verbs.WCRetryExcErr)
			}
		})
	}
}
