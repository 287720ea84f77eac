// Tests of receiving without waiting.

package link

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
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
			for range 20 {
				sendAll(t, a, b, 3, 64)
				got := 0
				testkit.Until(t, "three packets", func() bool {
					if err := try(in); err != nil && !errors.Is(err, ErrInterrupted) {
						t.Fatal(err)
					}
					got += len(in.Packets)
					return got == 3
				}, func() string { return fmt.Sprintf("%d packets: %+v", got, b.Counters()) })
			}
			if n := b.Counters(); n[ReceivedPackets] != 60 || n[ReceiveCalls] > 60 {
				t.Errorf("%+v", n)
			}
			if n := testing.AllocsPerRun(100, func() { _ = try(in) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			// An interrupt concerns only a Receive that waits.
			b.Interrupt()
			sendAll(t, a, b, 1, 64)
			testkit.Until(t, "packet after an interrupt", func() bool { return try(in) == nil })
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
	if Trying(struct{ Link }{}) != nil {
		t.Error("a simulated link does not wait")
	}
}
