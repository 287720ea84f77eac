//go:build linux && cgo && !nolibibverbs && !rdma

// Tests of the C wall with the tests' own libibverbs (testdata/libibverbs.c). Each test runs in its own
// process, because a process loads the library once. With the tag rdma the tests run on a device,
// where there may be no compiler.

package verbs

import (
	"cmp"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
)

// fakeDevice opens the test library's device. In the process that go test started it returns nil,
// after the test has run in another process.
func fakeDevice(t *testing.T) *Device {
	t.Helper()
	const inside = "RAWVERBS_TEST_FAKE_LIBRARY"
	if os.Getenv(inside) != "" {
		return must[*Device](t)(Open("fake0"))
	}
	dir := t.TempDir()
	compile := exec.Command(cmp.Or(os.Getenv("CC"), "cc"), "-shared", "-fPIC", "-o", filepath.Join(dir, "libibverbs.so.1"), "testdata/libibverbs.c")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", compile, err, out)
	}
	again := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), inside+"=1", "LD_LIBRARY_PATH="+dir)
	if out, err := again.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	return nil
}

// closeAgain closes objects whose first Close is refused.
func closeAgain(t *testing.T, objects ...interface{ Close() error }) {
	t.Helper()
	for _, object := range objects {
		if err := object.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("the first Close of a %T: %v, want EBUSY", object, err)
		}
		closeRoom(t, object, object)
	}
}

// TestRefusedCloseSucceedsLater checks that an object works after a refused Close and can be closed
// later.
func TestRefusedCloseSucceedsLater(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	ctx := testkit.Context(t)
	refused := func(object interface{ Close() error }) {
		t.Helper()
		if err := object.Close(); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("Close of a %T: %v, want EBUSY", object, err)
		}
	}
	overran := make(chan AsyncEvent, 1)
	defer d.Subscribe(func(e AsyncEvent) { overran <- e })()
	refused(d)
	ch := must[*CompChannel](t)(d.CreateCompChannel())
	refused(ch)
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1, Channel: ch}))
	if _, err := cq.Poll(make([]WC, 1)); err != nil {
		t.Fatal(err)
	}
	if e := testkit.Receive(t, overran, "event of the device after its Close was refused"); !cq.Is(e) {
		t.Errorf("the event is %v", e)
	}
	<-cq.woken // by the overrun
	if err := cq.Arm(false); err != nil {
		t.Errorf("Arm after the channel's Close was refused: %v", err)
	}
	cq.sleep(ctx, context.Background())
	if ctx.Err() != nil {
		t.Error("no event of the channel after its Close was refused")
	}
	pd := must[*PD](t)(d.AllocPD())
	srq := must[*SRQ](t)(pd.CreateSRQ(SRQInit{MaxWR: 1, MaxSGE: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq, SRQ: srq}))
	mr := must[*MR](t)(pd.AllocMR(4096, AccessLocalWrite))
	mw := must[*MW](t)(pd.AllocMW(MWType1))
	ah := must[*AH](t)(pd.CreateAH(AHAttr{}))
	closeAgain(t, ah, mw, mr, qp, srq, pd, cq)
	closeAgain(t, ch)
	refused(d)
	closeRoom(t, d, d)
	if _, err := d.p.NextEvent(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("NextEvent after Close: %v", err)
	}
}

// TestEventNamesTheCQThatItIsOf closes a CQ while an event of it is acknowledged, and makes another CQ
// at its address.
func TestEventNamesTheCQThatItIsOf(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	events := make(chan AsyncEvent, 1)
	defer d.Subscribe(func(e AsyncEvent) { events <- e })()
	first := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	address := first.p.(*ibvCQ).cq
	if _, err := first.Poll(make([]WC, 1)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // so that the acknowledgement has begun; otherwise the test is weaker
	closeAgain(t, first)
	second := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	if second.p.(*ibvCQ).cq != address {
		t.Fatal("the second CQ has another address")
	}
	if e := <-events; second.Is(e) {
		t.Errorf("%v, which the first CQ had, is about the second", e)
	}
	closeAgain(t, second, d)
}

// TestRegMRTakesAPartOfAnObject registers bytes of objects that also hold pointers, on the heap and in
// a global variable. cgo must check the bytes only.
func TestRegMRTakesAPartOfAnObject(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	onHeap := &part{next: new(part)}
	inGlobal.next, inGlobal.sgl[0].Length = onHeap, 8
	pd := must[*PD](t)(d.AllocPD())
	for _, buf := range [][]byte{onHeap.buf[:], inGlobal.buf[:]} {
		mr := must[*MR](t)(pd.RegMR(buf, AccessLocalWrite))
		if err := mr.Rereg(Rereg{Flags: ReregTranslation, Buf: buf[1:]}); err != nil {
			t.Error(err)
		}
		closeAgain(t, mr)
	}
	if err := pd.AdviseMR(AdvisePrefetch, 0, inGlobal.sgl[:]); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("AdviseMR: %v", err)
	}
	closeAgain(t, pd, d)
}

type part struct {
	buf  [4096]byte
	sgl  [1]SGE
	next *part
}

var inGlobal part

// TestQPWithSRQAsksForNoReceives: the test library grants the requested sizes.
func TestQPWithSRQAsksForNoReceives(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	srq := must[*SRQ](t)(pd.CreateSRQ(SRQInit{MaxWR: 1, MaxSGE: 1}))
	init := QPInit{Type: RC, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 5, MaxRecvWR: 6, MaxSendSGE: 7, MaxRecvSGE: 8, MaxInlineData: 9}}
	for _, shared := range []*SRQ{nil, srq} {
		want := init.Cap
		if init.SRQ = shared; shared != nil {
			want.MaxRecvWR, want.MaxRecvSGE = 0, 0
		}
		qp := must[*QP](t)(pd.CreateQP(init))
		if qp.Cap() != want {
			t.Errorf("with an SRQ: %t: asked for %+v, want %+v", shared != nil, qp.Cap(), want)
		}
		closeAgain(t, qp)
	}
	closeAgain(t, srq, cq, pd, d)
}

// TestSendsBelowRTSDoNotReachC: like rdma_rxe's, the test library queues the requests before it
// refuses them.
func TestSendsBelowRTSDoNotReachC(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq, Cap: QPCap{MaxSendWR: 4}}))
	mr := must[*MR](t)(pd.AllocMR(4096, AccessLocalWrite|AccessMWBind))
	mw := must[*MW](t)(pd.AllocMW(MWType1))
	c := qp.p.(*ibvQP).qp
	posts := map[string]func() error{
		"PostSend": func() error { return qp.PostSend([]SendWR{{Opcode: OpSend}}) },
		"BindMW":   func() error { return qp.BindMW(1, 0, MWBind{MW: mw, MR: mr}) },
	}
	check := func(sends bool) {
		t.Helper()
		for name, post := range posts {
			was := c.handle // the number of queued requests
			err := post()
			if sends && (err != nil || c.handle != was+1) || !sends && (!errors.Is(err, syscall.EINVAL) || c.handle != was) {
				t.Errorf("%s in %v: %v, %d requests queued", name, QPState(c.state), err, c.handle-was)
			}
		}
	}
	check(false)
	for _, to := range []QPState{qpstate.Init, qpstate.RTR, qpstate.RTS, qpstate.SQD, qpstate.Error, qpstate.Reset, qpstate.Init, qpstate.Error, qpstate.Reset, qpstate.RTR} {
		if err := qp.Modify(&QPAttr{State: to}, qpstate.MaskState); err != nil {
			t.Fatal(err)
		}
		check(to >= qpstate.RTS)
	}
	if err := qp.PostSend(nil); err != nil {
		t.Errorf("a post of nothing: %v", err)
	}
	c.state = 6 // an error moved it from RTR to ERR, where requests are flushed
	check(true)
	closeAgain(t, mw, mr, qp, cq, pd, d)
}

// TestOverrunIsReportedWithoutASubscriber: a poll of the test library's CQ makes the event of an overrun.
func TestOverrunIsReportedWithoutASubscriber(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	ctx := testkit.Context(t)
	ch := must[*CompChannel](t)(d.CreateCompChannel())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 5, Channel: ch}))
	pd := must[*PD](t)(d.AllocPD())
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1})), RecvCQ: cq, Cap: QPCap{MaxSendWR: 4}}))
	woken := make(chan struct{})
	go func() {
		cq.sleep(ctx, context.Background())
		close(woken)
	}()
	if _, err := cq.Poll(make([]WC, 1)); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, woken, "end of a sleep on the CQ")
	_, waited := cq.Wait(ctx, make([]WC, 1))
	_, spun := cq.WaitFor(ctx, make([]WC, 1), WaitOptions{Spin: time.Nanosecond})
	_, polled := cq.Poll(make([]WC, 1))
	for call, err := range map[string]error{"Wait": waited, "a wait that spins": spun, "Poll": polled,
		"PostSend": qp.PostSend([]SendWR{{Opcode: OpSend}}), "PostRecv": qp.PostRecv([]RecvWR{{}})} {
		var overrun *OverrunError
		if !errors.As(err, &overrun) || overrun.CQ != cq || overrun.Depth != 5 || !strings.Contains(err.Error(), "5 entries") {
			t.Errorf("%s: %v", call, err)
		}
	}
	event := make(chan AsyncEvent, 1)
	defer d.Subscribe(func(e AsyncEvent) {
		select {
		case event <- e:
		default:
		}
	})()
	if e := testkit.Receive(t, event, "event from before the subscription"); e.Type != EventCQErr || !cq.Is(e) {
		t.Errorf("the event is %v", e)
	}
}

// TestCountersOfTheDeviceAndThePort: some drivers count per port, some for the whole device.
func TestCountersOfTheDeviceAndThePort(t *testing.T) {
	d := fakeDevice(t)
	if d == nil {
		return
	}
	p, root := d.p.(*ibvDevice), t.TempDir()
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&p.ctx.device.ibdev_path[0])), len(p.ctx.device.ibdev_path)), root+"\x00")
	if _, err := p.QueryCounters(1); err != syscall.EOPNOTSUPP {
		t.Errorf("without counters: %v", err)
	}
	for name, text := range map[string]string{"hw_counters/rq_num_udsdprd": "7\n", "ports/1/hw_counters/lifespan": "10\n", "ports/1/counters/port_rcv_errors": "3\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := p.QueryCounters(1)
	if err != nil || len(all) != 2 || all["rq_num_udsdprd"] != 7 || all["port_rcv_errors"] != 3 {
		t.Errorf("%v, %v", all, err)
	}
	closeAgain(t, d)
}
