// Tests of receiving without waiting.

package link

import (
	"errors"
	"net"
	"testing"
	"time"
)

func TestTrying(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.String(), func(t *testing.T) {
			a, b := pair(t, false, Config{Limit: mode})
			try := Trying(b)
			if (try == nil) != (mode == Plain) {
				t.Fatal("the link can receive without waiting:", try != nil)
			}
			if try == nil {
				return
			}
			in := NewIngress()
			if err := try(in); !errors.Is(err, ErrInterrupted) {
				t.Fatal("without a packet:", err)
			}
			got := 0
			for range 20 {
				sendAll(t, a, b, 3, 64)
				for end := time.Now().Add(5 * time.Second); got < 3 && time.Now().Before(end); {
					if err := try(in); err != nil && !errors.Is(err, ErrInterrupted) {
						t.Fatal(err)
					}
					got += len(in.Packets)
				}
				if got != 3 {
					t.Fatalf("%d packets, want 3", got)
				}
				got = 0
			}
			if n := b.Counters(); n.ReceivedPackets != 60 || n.ReceiveCalls > 60 {
				t.Errorf("%+v", n)
			}
			if n := testing.AllocsPerRun(100, func() { _ = try(in) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			// An interrupt concerns only a Receive that waits.
			b.Interrupt()
			sendAll(t, a, b, 1, 64)
			for range 1000 {
				if err := try(in); err == nil {
					break
				}
				time.Sleep(time.Millisecond)
			}
			if len(in.Packets) != 1 {
				t.Errorf("%d packets after an interrupt", len(in.Packets))
			}
			if err := b.Receive(in); !errors.Is(err, ErrInterrupted) {
				t.Error("Receive after an interrupt:", err)
			}
			b.Close()
			if err := try(in); !errors.Is(err, net.ErrClosed) {
				t.Error("after Close:", err)
			}
		})
	}
	if _, a, _ := simulatedPair(t, NetworkConfig{}); Trying(a) != nil {
		t.Error("a simulated link does not wait")
	}
}
