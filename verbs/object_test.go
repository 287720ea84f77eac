package verbs

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
)

// must ends the test if making an object failed.
func must[T any](t *testing.T) func(T, error) T {
	return func(object T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return object
	}
}

func TestParentsOutliveChildren(t *testing.T) {
	d, p := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	ch := must[*CompChannel](t)(d.CreateCompChannel())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1, Channel: ch}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	mr := must[*MR](t)(pd.AllocMR(4096, AccessLocalWrite))
	ah := must[*AH](t)(pd.CreateAH(AHAttr{}))

	for _, c := range []struct {
		parent interface{ Close() error }
		names  string
	}{
		{d, "1 CQ, 1 PD, 1 completion channel"}, {pd, "1 AH, 1 MR, 1 QP"}, {ch, "1 CQ"}, {cq, "1 QP"},
	} {
		err := c.parent.Close()
		if !errors.Is(err, syscall.EBUSY) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("closing a %T with children: %v; want %s", c.parent, err, c.names)
		}
	}
	for range 2 { // twice: Close is idempotent
		for _, object := range []interface{ Close() error }{qp, ah, mr, cq, ch, pd, d} {
			if err := object.Close(); err != nil {
				t.Errorf("closing a %T: %v", object, err)
			}
		}
	}
	if n := p.open(); n != 0 {
		t.Errorf("%d objects are left", n)
	}
	if _, err := d.AllocPD(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("AllocPD on a closed device: %v", err)
	}
	if _, err := pd.AllocMR(1, 0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("AllocMR on a closed PD: %v", err)
	}
	if _, err := qp.Query(0); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Query of a closed QP: %v", err)
	}
	if err := qp.Modify(&QPAttr{}, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Modify of a closed QP: %v", err)
	}
}

func TestARefusedObjectLeavesNothingBehind(t *testing.T) {
	d, p := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	for name, make := range map[string]func() error{
		"ibv_reg_mr":    func() error { _, err := pd.AllocMR(1<<20, AccessRemoteWrite); return err },
		"ibv_create_qp": func() error { _, err := pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}); return err },
		"ibv_create_ah": func() error { _, err := pd.CreateAH(AHAttr{}); return err },
	} {
		p.refuse = syscall.ENOMEM
		err := make()
		if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), name+" on paper0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, object := range []interface{ Close() error }{cq, pd, d} {
		if err := object.Close(); err != nil {
			t.Errorf("closing a %T: %v", object, err)
		}
	}
}

// TestAPanicLeavesNothingBehind: a provider may panic while it makes an object, as cgo does for a
// pointer that it refuses. No child must be counted and no memory pinned after that.
func TestAPanicLeavesNothingBehind(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	pd.p = panicsPD{pd.p}
	before := pinned()
	for name, make := range map[string]func(){
		"RegMR":   func() { _, _ = pd.RegMR(make([]byte, 64), AccessLocalWrite) },
		"AllocMR": func() { _, _ = pd.AllocMR(64, AccessLocalWrite) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			make()
		}()
	}
	if n := pinned(); n != before {
		t.Errorf("%d regions' memory is pinned, %d before", n, before)
	}
	closeRoom(t, pd, d)
}

type panicsPD struct{ ProviderPD }

func (panicsPD) RegMR([]byte, uint64, Access) (ProviderMR, error) { panic("out of RegMR") }

func pinned() (n int) {
	pins.Range(func(any, any) bool { n++; return true })
	return n
}

func TestMR(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	mr := must[*MR](t)(pd.AllocMR(5000, AccessLocalWrite))
	if mr.Addr()%4096 != 0 || mr.Len() != 5000 || len(mr.Bytes()) != 5000 {
		t.Errorf("got %v", mr)
	}
	if sge := mr.SGE(4000, 1000); sge.Addr != mr.Addr()+4000 || sge.Length != 1000 || sge.LKey != mr.LKey() {
		t.Errorf("SGE: %+v", sge)
	}
	for _, c := range [][2]int{{0, 5001}, {4999, 2}, {-1, 1}, {1, -1}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("SGE(%d, %d) did not panic", c[0], c[1])
				}
			}()
			mr.SGE(c[0], c[1])
		}()
	}
	heap := make([]byte, 64)
	pinned := must[*MR](t)(pd.RegMR(heap[:32], AccessLocalWrite))
	if &pinned.Bytes()[0] != &heap[0] || cap(pinned.Bytes()) != 32 {
		t.Error("RegMR registered other memory than it was given")
	}
	if _, err := pd.RegMR(nil, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("RegMR of nothing: %v", err)
	}
	for _, size := range []int{0, -1} {
		if _, err := pd.AllocMR(size, 0); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("AllocMR(%d): %v", size, err)
		}
	}
}

// TestMRClosesAgain checks that another Close gives the memory back, without deregistering again.
func TestMRClosesAgain(t *testing.T) {
	d, paper := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	mr := must[*MR](t)(pd.AllocMR(5000, AccessLocalWrite))
	tries, unmap := 0, mr.free[0]
	mr.free[0] = func() error {
		if tries++; tries < 3 {
			return syscall.ENOMEM
		}
		return unmap()
	}
	open := paper.open()
	for range 2 {
		err := mr.Close()
		if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "mmap on paper0 (5000 bytes") || !strings.Contains(err.Error(), "try:") {
			t.Errorf("Close: %v", err)
		}
	}
	if err := mr.Rereg(Rereg{Flags: ReregAccess}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Rereg of what is not registered: %v", err)
	}
	if err := pd.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("the domain's Close before the memory is given back: %v", err)
	}
	for range 2 {
		if err := mr.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if n := paper.open(); n != open-1 || tries != 3 {
		t.Errorf("%d objects became %d, in %d tries", open, n, tries)
	}
}

func TestModifyExplainsEINVAL(t *testing.T) {
	d, p := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	m := qpstate.NewMachine(RC, qp, nil)
	refused := func(attr QPAttr, mask QPAttrMask) string {
		t.Helper()
		p.refuse = syscall.EINVAL
		err := qp.Modify(&attr, mask)
		if !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("got %v", err)
		}
		return err.Error()
	}
	expect := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q\nlacks %q", text, want)
			}
		}
	}
	expect(refused(QPAttr{State: qpstate.Init}, qpstate.MaskState), "RC RESET→INIT", "missing ACCESS_FLAGS", "paper0")
	expect(refused(QPAttr{State: qpstate.Init, PortNum: 7}, 0x39), "PORT 7 does not exist")
	p.refuse = syscall.EOPNOTSUPP // rdma_rxe's error for RATE_LIMIT
	var bits *qpstate.TransitionError
	if err := qp.Modify(&QPAttr{State: qpstate.Init, PortNum: 1}, 0x39|qpstate.MaskRateLimit); !errors.Is(err, syscall.EOPNOTSUPP) || !errors.As(err, &bits) {
		t.Errorf("EOPNOTSUPP: %v", err)
	}
	if err := m.ToInit(QPAttr{PortNum: 1}); err != nil {
		t.Fatal(err)
	}
	const rtr = 0x129181
	good := QPAttr{State: qpstate.RTR, PathMTU: qpstate.MTU1024,
		AH: AHAttr{IsGlobal: true, PortNum: 1, GRH: GRH{DGID: rxeTable[1].GID, SGIDIndex: 1}}}
	expect(refused(good, rtr), "::ffff:10.99.0.1", "sgid_index 1")
	bad := func(change func(*QPAttr)) string {
		attr := good
		change(&attr)
		return refused(attr, rtr)
	}
	expect(bad(func(a *QPAttr) { a.AH.IsGlobal = false }), "IsGlobal")
	expect(bad(func(a *QPAttr) { a.AH.PortNum = 2 }), "AH.PortNum is 2")
	expect(bad(func(a *QPAttr) { a.AH.GRH.DGID = GID{} }), "all zero")
	expect(bad(func(a *QPAttr) { a.AH.GRH.SGIDIndex = 9 }), "index 9 is an empty slot", "fe80::1")
	expect(bad(func(a *QPAttr) { a.AH.GRH.SGIDIndex = 0 }), "link-local IPv6", "IPv4-mapped", "one family")
	expect(bad(func(a *QPAttr) { a.RQPSN = 1 << 24 }), "RQ_PSN 0x1000000 has more than 24 bits")
	expect(bad(func(a *QPAttr) { a.PathMTU = 9 }), "PATH_MTU")
	expect(bad(func(a *QPAttr) { a.MaxDestRdAtomic = 200 }), "MAX_DEST_RD_ATOMIC 200")
	expect(bad(func(a *QPAttr) { a.MinRNRTimer = 32 }), "MIN_RNR_TIMER 32")

	p.refuse = syscall.ETIMEDOUT
	if err := qp.Modify(&good, rtr); !errors.Is(err, syscall.ETIMEDOUT) || !strings.Contains(err.Error(), "ARP") {
		t.Errorf("ETIMEDOUT: %v", err)
	}
}

func TestObjectsOfTwoDevicesDoNotMix(t *testing.T) {
	d, _ := newPaperDevice()
	other, _ := newPaperDevice()
	pd, ch := must[*PD](t)(d.AllocPD()), must[*CompChannel](t)(d.CreateCompChannel())
	mine, theirs := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1})), must[*CQ](t)(other.CreateCQ(CQInit{Depth: 1}))
	for name, err := range map[string]error{
		"a CQ on another's channel": func() error { _, err := other.CreateCQ(CQInit{Depth: 1, Channel: ch}); return err }(),
		"another's receive CQ":      func() error { _, err := pd.CreateQP(QPInit{Type: RC, SendCQ: mine, RecvCQ: theirs}); return err }(),
		"another's send CQ":         func() error { _, err := pd.CreateQP(QPInit{Type: RC, SendCQ: theirs, RecvCQ: mine}); return err }(),
	} {
		if !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), "objects of one opened device") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestBindOfAnotherDevicesObjectsSaysSo: the provider returns only an errno.
func TestBindOfAnotherDevicesObjectsSaysSo(t *testing.T) {
	d, _ := newPaperDevice()
	other, _ := newPaperDevice()
	pd, otherPD := must[*PD](t)(d.AllocPD()), must[*PD](t)(other.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	bind := func(mws, mrs *PD) string {
		mw := must[*MW](t)(mws.AllocMW(MWType2))
		return qp.bindFault(&MWBind{MW: mw, MR: must[*MR](t)(mrs.AllocMR(4096, AccessLocalWrite)), RKey: IncRKey(mw.RKey())}).reason
	}
	for reason, want := range map[string]bool{bind(pd, pd): false, bind(otherPD, pd): true, bind(pd, otherPD): true} {
		if strings.Contains(reason, "another device") != want {
			t.Errorf("the reason is %q", reason)
		}
	}
}

func TestLaterSubscribersGetDeviceFatal(t *testing.T) {
	d, _ := newPaperDevice()
	got := make(chan AsyncEvent, 1)
	first := make(chan AsyncEvent, 1)
	defer d.Subscribe(func(e AsyncEvent) { first <- e })()
	d.p.(*paperDevice).events <- AsyncEvent{Type: EventDeviceFatal}
	<-first
	defer d.Subscribe(func(e AsyncEvent) { got <- e })()
	if e := <-got; e.Type != EventDeviceFatal {
		t.Errorf("got %v", e)
	}
}

func TestSubscribe(t *testing.T) {
	d, _ := newPaperDevice()
	p := d.p.(*paperDevice)
	got := make(chan AsyncEvent, 8)
	cancel := d.Subscribe(func(e AsyncEvent) { got <- e })
	second := make(chan AsyncEvent, 8)
	defer d.Subscribe(func(e AsyncEvent) { second <- e })()
	p.events <- AsyncEvent{Type: EventPortErr, Port: 1}
	if e := <-got; e.Type != EventPortErr || e.String() != "IBV_EVENT_PORT_ERR on port 1" {
		t.Errorf("got %v", e)
	}
	<-second
	cancel()
	p.events <- AsyncEvent{Type: EventQPFatal, QPN: 5}
	if e := <-second; !e.Fatal() {
		t.Errorf("got %v", e)
	}
	if len(got) != 0 {
		t.Error("an event came after cancel")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestLeakIsReported loses an object without Close.
func TestLeakIsReported(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	old := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&lockedWriter{w: &log, mu: &mu}, nil)))
	defer slog.SetDefault(old)
	func() {
		d, _ := newPaperDevice()
		d.Subscribe(func(AsyncEvent) {}) // its goroutine must not keep the device alive
		_ = must[*PD](t)(d.AllocPD())
		ch := must[*CompChannel](t)(d.CreateCompChannel())
		_ = must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1, Channel: ch}))
	}()
	var text string
	testkit.Until(t, "report of the leak", func() bool {
		runtime.GC()
		mu.Lock()
		defer mu.Unlock()
		text = log.String()
		return strings.Contains(text, "PD on paper0") && strings.Contains(text, "device on paper0") && strings.Contains(text, "CQ on paper0")
	}, func() string { return text })
}

// TestLogger: the Logger gets each verb, also a failed one, and a leak.
func TestLogger(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	handler := slog.NewTextHandler(&lockedWriter{w: &log, mu: &mu}, &slog.HandlerOptions{Level: slog.LevelDebug})
	logged := func() string {
		mu.Lock()
		defer mu.Unlock()
		defer log.Reset()
		return log.String()
	}
	d, _ := newPaperDevice()
	d.log = slog.New(handler)
	pd := must[*PD](t)(d.AllocPD())
	must[DeviceAttr](t)(d.Query())
	if _, err := d.QueryPort(77); err == nil {
		t.Error("there is a port 77")
	}
	if err := d.Close(); err == nil {
		t.Error("closed above a PD")
	}
	if err := pd.Close(); err != nil {
		t.Error(err)
	}
	text := logged()
	for _, want := range []string{
		`level=DEBUG msg=ibv_alloc_pd device=paper0 object=PD took=`, `msg=ibv_query_device`, `msg=ibv_query_port`, `detail="port 77"`, `error=`,
		`msg=ibv_dealloc_pd device=paper0 object=PD`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("not logged: %s in\n%s", want, text)
		}
	}
	func() { _ = must[*PD](t)(d.AllocPD()) }()
	testkit.Until(t, "report of the leak", func() bool {
		runtime.GC()
		text += logged()
		return strings.Contains(text, "level=WARN")
	}, func() string { return text })
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// TestCloseOfNothing: a program may defer Close before it looks at the error of the call that made the object.
func TestCloseOfNothing(t *testing.T) {
	for _, object := range []io.Closer{
		(*Device)(nil), (*PD)(nil), (*CompChannel)(nil), (*CQ)(nil), (*SRQ)(nil), (*QP)(nil), (*MR)(nil), (*MW)(nil), (*AH)(nil),
		new(Device), new(PD), new(CompChannel), new(CQ), new(SRQ), new(QP), new(MR), new(MW), new(AH),
	} {
		if err := object.Close(); err != nil {
			t.Errorf("%T: %v", object, err)
		}
	}
}
