package softroce

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/wire"
)

// TestCloseLetsTheLastPacketsGo checks that Close waits for packets that another goroutine is
// about to send, such as the last acknowledgement, but not forever.
func TestCloseLetsTheLastPacketsGo(t *testing.T) {
	for name, sends := range map[string]bool{"the packets are sent": true, "the packets are never sent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, devices := openNet(t, wire.Faults{})
				sent := Sending(devices[0])
				began, closed := time.Now(), make(chan struct{})
				go func() {
					defer close(closed)
					for _, dev := range devices {
						if err := dev.Close(); err != nil {
							t.Error(err)
						}
					}
				}()
				synctest.Wait()
				select {
				case <-closed:
					t.Error("Close returned while packets were being sent")
				default:
				}
				limit := time.Duration(0)
				if sends {
					sent()
					limit = time.Millisecond
				} else {
					defer sent()
					limit = 10 * time.Millisecond
				}
				<-closed
				if waited := time.Since(began) - 2*lastPackets; waited > limit || !sends && waited < limit {
					t.Errorf("Close waited for %v", waited)
				}
			})
		})
	}
}
