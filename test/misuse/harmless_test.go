// Mistakes that the API makes harmless.

package misuse_test

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestSendHoldsItsBuffer: Send returns when its request has completed, so that a loop may
// fill one buffer again and again.
func TestSendHoldsItsBuffer(t *testing.T) {
	conn, server, _ := connect(t, nil)
	mr, inbox := local(t, conn, 0), local(t, server, verbs.AccessLocalWrite)
	const messages = 10
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < messages && err == nil; i++ {
			binary.NativeEndian.PutUint64(mr.Bytes(), uint64(i))
			err = conn.Send(t.Context(), mr.Slice(0, 8))
		}
		sent <- err
	}()
	time.Sleep(testkit.Moment)
	select {
	case err := <-sent:
		t.Fatalf("Send returned before the peer posted a receive: %v", err)
	default:
	}
	for i := range messages {
		wc, err := server.Recv(t.Context(), inbox.Slice(0, 8))
		if got := binary.NativeEndian.Uint64(inbox.Bytes()); err != nil || got != uint64(i) {
			t.Fatalf("message %d is %d: %+v, %v", i, got, wc, err)
		}
	}
	check(t, testkit.Receive(t, sent, "end of Send"))
}

// TestCloseUnderReaders: goroutines that read a region's memory when it is closed read what
// was there last. The memory stays mapped, and no other region gets it.
func TestCloseUnderReaders(t *testing.T) {
	conn, _, _ := connect(t, nil)
	mr := local(t, conn, verbs.AccessLocalWrite)
	copy(mr.Bytes(), "last")
	var readers sync.WaitGroup
	stop, wrong := make(chan struct{}), make(chan string, 4)
	for range cap(wrong) {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := string(mr.Bytes()[:4]); got != "last" {
					wrong <- got
					return
				}
			}
		})
	}
	check(t, conn.Close())
	other := must(newPD(t, openDevice(t)).AllocMR(mr.Len(), verbs.AccessLocalWrite))(t)
	defer other.Close()
	copy(other.Bytes(), "another")
	close(stop)
	readers.Wait()
	close(wrong)
	for got := range wrong {
		t.Errorf("a reader read %q", got)
	}
}
