package softroce_test

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

const everyAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic

// do posts one request and waits until it has succeeded.
func do(t *testing.T, c *rc.Conn, wr verbs.SendWR) {
	t.Helper()
	wr.Flags |= verbs.SendSignaled
	if err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		t.Fatal(err)
	}
	var wcs [1]verbs.WC
	_, err := c.QP().SendCQ().Wait(testkit.Context(t), wcs[:])
	if err == nil {
		err = wcs[0].Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// memories runs f on two connected ends, once for each way to make a region.
func memories(t *testing.T, size int, f func(t *testing.T, c, s *rc.Conn, region func(*rc.Conn) *verbs.MR)) {
	for name, register := range map[string]func(*verbs.PD) (*verbs.MR, error){
		"AllocMR": func(pd *verbs.PD) (*verbs.MR, error) { return pd.AllocMR(size, everyAccess) },
		"RegMR":   func(pd *verbs.PD) (*verbs.MR, error) { return pd.RegMR(make([]byte, size), everyAccess) },
	} {
		t.Run(name, func(t *testing.T) {
			c, s := connect(t, openSoft(t, "soft:127.0.0.2"), openSoft(t, "soft:127.0.0.3"), rc.Config{})
			f(t, c, s, func(end *rc.Conn) *verbs.MR {
				mr, err := register(end.PD())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := mr.Close(); err != nil {
						t.Error(err)
					}
				})
				return mr
			})
		})
	}
}

// TestRaceDetectorDoesNotSeeTheDevice checks that the device's own accesses to memory are not
// reported as races. In this test both ends of a one-sided exchange are one process. The
// completions that the client receives order the two ends, but the race detector cannot know.
func TestRaceDetectorDoesNotSeeTheDevice(t *testing.T) {
	const size = 8192
	memories(t, size, func(t *testing.T, c, s *rc.Conn, region func(*rc.Conn) *verbs.MR) {
		local, remote := region(c), region(s)
		wr := verbs.SendWR{SGL: []verbs.SGE{local.SGE(0, size)}, RemoteAddr: remote.Addr(), RKey: remote.RKey()}
		word := wr
		word.SGL = []verbs.SGE{local.SGE(0, 8)}
		for turn := range byte(100) {
			for i := range local.Bytes() {
				local.Bytes()[i] = turn
			}
			wr.Opcode = verbs.OpRDMAWrite
			do(t, c, wr)
			if got := remote.Bytes()[size-1]; got != turn {
				t.Fatalf("the peer's memory has %d after a WRITE, want %d", got, turn)
			}
			for i := range remote.Bytes() {
				remote.Bytes()[i] = turn + 1
			}
			wr.Opcode = verbs.OpRDMARead
			do(t, c, wr)
			if got := local.Bytes()[size-1]; got != turn+1 {
				t.Fatalf("a READ fetched %d, want %d", got, turn+1)
			}
			binary.NativeEndian.PutUint64(remote.Bytes(), 40)
			word.Opcode, word.CompareAdd = verbs.OpAtomicFetchAndAdd, 1
			do(t, c, word)
			word.Opcode, word.CompareAdd, word.Swap = verbs.OpAtomicCmpAndSwp, 41, 42
			do(t, c, word)
			if was, is := binary.NativeEndian.Uint64(local.Bytes()), binary.NativeEndian.Uint64(remote.Bytes()); was != 41 || is != 42 {
				t.Fatalf("the last atomic returned %d and left %d; want 41 and 42", was, is)
			}
		}
	})
}

// TestCloseUnderTrafficAndReaders closes a region a thousand times. The peer writes to the
// region, and goroutines read it before and after Close.
func TestCloseUnderTrafficAndReaders(t *testing.T) {
	const size = 8192
	memories(t, size, func(t *testing.T, c, s *rc.Conn, region func(*rc.Conn) *verbs.MR) {
		local := region(c)
		for i := range local.Bytes() {
			local.Bytes()[i] = 1
		}
		var all sync.WaitGroup
		stops := [2]*atomic.Bool{new(atomic.Bool), new(atomic.Bool)} // stop the readers of the previous and of the current region
		defer func() {
			stops[0].Store(true)
			stops[1].Store(true)
			all.Wait()
		}()
		for range 1000 {
			remote := region(s)
			stop := new(atomic.Bool)
			stops[0].Store(true)
			stops[0], stops[1] = stops[1], stop
			for range 2 {
				all.Go(func() {
					for !stop.Load() {
						b := remote.Bytes()
						for i := 0; i < len(b); i += 64 {
							if b[i] > 1 {
								t.Errorf("a reader found %#x, want 0 or 1", b[i])
								return
							}
						}
						time.Sleep(10 * time.Microsecond)
					}
				})
			}
			do(t, c, verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{local.SGE(0, size)},
				RemoteAddr: remote.Addr(), RKey: remote.RKey()})
			if err := remote.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
