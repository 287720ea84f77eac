//go:build rdma

// Tests of this package's own promises on the device that RDMA_TEST_DEVICE names. `make test-rxe` runs
// them on a real rxe0. The rules for all devices are in verbs/verbstest.

package verbs

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs/internal/ccall"
)

func openTestDevice(t *testing.T) *Device {
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; make test-rxe sets it")
	}
	d, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func threads(t *testing.T) int {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(tasks)
}

// TestWaitingHoldsNoThread starts 200 goroutines that wait on 20 CQs of 4 channels.
func TestWaitingHoldsNoThread(t *testing.T) {
	d := openTestDevice(t)
	var channels []*CompChannel
	var cqs []*CQ
	for range 4 {
		ch := must[*CompChannel](t)(d.CreateCompChannel())
		channels = append(channels, ch)
		for range 5 {
			cqs = append(cqs, must[*CQ](t)(d.CreateCQ(CQInit{Depth: 8, Channel: ch})))
		}
	}
	before := threads(t)
	var waiters, started sync.WaitGroup
	for i := range 200 {
		started.Add(1)
		waiters.Go(func() {
			started.Done()
			if _, err := cqs[i%len(cqs)].Wait(context.Background(), make([]WC, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	}
	started.Wait()
	time.Sleep(200 * time.Millisecond) // until all sleep; fewer only make the test weaker
	if after := threads(t); after > before+4 {
		t.Errorf("200 waiters took the process from %d to %d threads", before, after)
	}
	for _, cq := range cqs {
		closeRoom(t, cq)
	}
	waiters.Wait()
	for _, ch := range channels {
		closeRoom(t, ch)
	}
}

// TestObjectsComeAndGo makes and closes each kind of object many times. Nothing may be left in the
// process.
func TestObjectsComeAndGo(t *testing.T) {
	d := openTestDevice(t)
	round := func() {
		pd := must[*PD](t)(d.AllocPD())
		ch := must[*CompChannel](t)(d.CreateCompChannel())
		cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 8, Channel: ch}))
		ex := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 8, Channel: ch, Ex: WCExStandard}))
		srq := must[*SRQ](t)(pd.CreateSRQ(SRQInit{MaxWR: 8, MaxSGE: 1}))
		qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: ex, SRQ: srq,
			Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))
		mr := must[*MR](t)(pd.AllocMR(4096, AccessLocalWrite))
		pinned := must[*MR](t)(pd.RegMR(make([]byte, 4096), AccessLocalWrite))
		one, two := must[*MW](t)(pd.AllocMW(MWType1)), must[*MW](t)(pd.AllocMW(MWType2))
		built := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq, PostPath: PostWRAPI,
			Cap: QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}}))
		closeRoom(t, built, two, one, pinned, mr, qp, srq, ex, cq, ch, pd)
	}
	round()
	fds, tasks := countFDs(t), threads(t)
	for range 100 {
		round()
	}
	if now := countFDs(t); now != fds {
		t.Errorf("%d descriptors became %d", fds, now)
	}
	if now := threads(t); now > tasks+2 {
		t.Errorf("%d threads became %d", tasks, now)
	}
}

func countFDs(t *testing.T) int {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(fds)
}

// TestOpenByName opens the listed devices, the first one without a name, and no other.
func TestOpenByName(t *testing.T) {
	devices, err := Devices()
	if err != nil || len(devices) == 0 {
		t.Fatalf("Devices: %v, %v", devices, err)
	}
	for _, name := range []string{"", devices[0].Name} {
		d, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if d.Name() != devices[0].Name || d.Info() != devices[0] {
			t.Errorf("Open(%q) is %v", name, d.Info())
		}
		closeRoom(t, d)
	}
}

// TestOpenTellsTheWayOfCalls compares the log record with ccall.
func TestOpenTellsTheWayOfCalls(t *testing.T) {
	var log bytes.Buffer
	d := must[*Device](t)(OpenWith(os.Getenv("RDMA_TEST_DEVICE"), OpenOptions{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))
	defer d.Close()
	want := `detail="libibverbs, calls through cgo"`
	if ccall.Direct {
		want = `detail="libibverbs, calls past Go's scheduler"`
	}
	if !strings.Contains(log.String(), want) {
		t.Errorf("logged: %s; want %s", log.String(), want)
	}
}
