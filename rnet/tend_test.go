package rnet

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestRestLeaves: bytes that wait for a whole message leave although the program does nothing more with
// this end, each time that it has paused.
func TestRestLeaves(t *testing.T) {
	a, b := testPair(t, Config{})
	b.SetReadDeadline(time.Now().Add(10 * time.Second))
	r := rand.New(rand.NewPCG(1, 1))
	held := 0
	for range 100 {
		n := 1 + r.IntN(defaultRing/2) // the peer has told that so much is free again
		for left := n; left > 0; {
			k := min(1+r.IntN(200<<10), left)
			if _, err := a.Write(make([]byte, k)); err != nil {
				t.Fatal(err)
			}
			left -= k
		}
		a.mu.Lock()
		if a.flow.posted < a.flow.written {
			held++
		}
		a.mu.Unlock()
		if m, err := io.CopyN(io.Discard, b, int64(n)); err != nil {
			t.Fatalf("%d of %d bytes, %v: %+v", m, n, err, a.Stats())
		}
	}
	if held == 0 {
		t.Error("nothing waited for a whole message, so nothing was tested")
	}
}

// TestSteadyWriterIsNotHeld: small writes leave soon, although each comes before the one before it has
// waited for long, and nobody reads at this end.
func TestSteadyWriterIsNotHeld(t *testing.T) {
	a, b := testPair(t, Config{})
	const records, size = 2000, 100
	begin := time.Now()
	wrote := make(chan error, 1)
	go func() {
		record := make([]byte, size)
		for i := range records {
			for time.Since(begin) < time.Duration(i)*tendDelay/4 {
				runtime.Gosched() // a sleep would last longer than tendDelay
			}
			binary.LittleEndian.PutUint64(record, uint64(time.Since(begin)))
			if _, err := a.Write(record); err != nil {
				wrote <- err
				return
			}
		}
		wrote <- nil
	}()
	b.SetReadDeadline(begin.Add(20 * time.Second))
	var ages []time.Duration
	var failed error
	for record := make([]byte, size); len(ages) < records && failed == nil; {
		if _, failed = io.ReadFull(b, record); failed == nil {
			ages = append(ages, time.Since(begin)-time.Duration(binary.LittleEndian.Uint64(record)))
		}
	}
	a.SetWriteDeadline(time.Now()) // in case the writer still waits
	if err := <-wrote; err != nil {
		t.Errorf("Write: %v", err)
	}
	if failed != nil {
		t.Fatalf("record %d: %v", len(ages), failed)
	}
	slices.Sort(ages)
	if median := ages[records/2]; median > 100*tendDelay { // if they waited for a whole message, 60 ms
		t.Errorf("half of the records were older than %v when they arrived", median)
	}
	t.Logf("ages: median %v, most %v", ages[records/2], ages[records-1])
}
