// The last packets of a queue pair: the program has the completion of a receive, and ends the queue pair before the peer
// has its ACK or NAK, or posts a last request and closes its region.

package softroce_test

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// oneEnd is one end of a connection whose queue pair the test ends itself. Its receives have
// receiveBytes.
type oneEnd struct {
	t   testing.TB
	dev *verbs.Device
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP

	timeout uint8 // of the ACK; 0: requests are never sent again
}

const receiveBytes = 8

func newOneEndOn(t testing.TB, dev *verbs.Device) *oneEnd {
	e := &oneEnd{t: t, dev: dev, timeout: 14}
	pd, err := e.dev.AllocPD()
	e.ok(err)
	channel, err := e.dev.CreateCompChannel()
	e.ok(err)
	e.cq, err = e.dev.CreateCQ(verbs.CQInit{Depth: 16, Channel: channel})
	e.ok(err)
	e.mr, err = pd.AllocMR(64, verbs.AccessLocalWrite)
	e.ok(err)
	e.qp, err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	e.ok(err)
	t.Cleanup(func() {
		for _, object := range []interface{ Close() error }{e.qp, e.mr, e.cq, channel, pd} {
			e.ok(object.Close())
		}
	})
	return e
}

func (e *oneEnd) ok(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func (e *oneEnd) connect(to *oneEnd) {
	const psn = 100
	endpoint := func(e *oneEnd) qpstate.Endpoint {
		return qpstate.Endpoint{QPN: e.qp.QPN(), PSN: psn, MTU: qpstate.MTU1024}
	}
	way := verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: qpstate.GIDFrom(gidOf(e.t, to.dev)), SGIDIndex: 1}}
	rtr, rts := endpoint(e).Connect(endpoint(to), way)
	rts.Timeout = e.timeout
	m := e.qp.Machine(nil)
	e.ok(m.ToInit(verbs.QPAttr{PortNum: 1}))
	for range 2 {
		e.ok(e.qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{e.mr.SGE(0, receiveBytes)}}}))
	}
	e.ok(m.ToRTR(rtr))
	e.ok(m.ToRTS(rts))
}

func (e *oneEnd) send(bytes int) {
	e.ok(e.qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{e.mr.SGE(0, bytes)}}}))
}

func (e *oneEnd) want(status verbs.WCStatus) {
	e.t.Helper()
	wcs := make([]verbs.WC, 1)
	if _, err := e.cq.Wait(testkit.Context(e.t), wcs); err != nil || wcs[0].Status != status {
		e.t.Errorf("%v, %v; want %v", wcs[0].Status, err, status)
	}
}

// withEachAnswer runs test for an ACK and for a NAK, with each way to end a queue pair.
func withEachAnswer(t *testing.T, test func(t *testing.T, c answered)) {
	for name, end := range map[string]func(*verbs.QP) error{
		"ERR":   func(qp *verbs.QP) error { return qp.Machine(nil).ToError() },
		"RESET": func(qp *verbs.QP) error { return qp.Machine(nil).ToReset() },
		"Close": (*verbs.QP).Close,
	} {
		for _, c := range []answered{
			{"ACK", receiveBytes, verbs.WCSuccess, end},
			{"NAK", receiveBytes + 1, verbs.WCRemInvReqErr, end},
		} {
			t.Run(name+" after "+c.answer, func(t *testing.T) { test(t, c) })
		}
	}
}

// answered is the last message from a to b, its answer, and how b's queue pair ends.
type answered struct {
	answer string
	bytes  int
	want   verbs.WCStatus
	end    func(*verbs.QP) error
}

// run runs test between two devices. send sends the last message, and test calls end. Afterwards a must have the answer.
func (c answered) run(t *testing.T, x, y *verbs.Device, test func(b *oneEnd, send func(), end func() error)) {
	a, b := newOneEndOn(t, x), newOneEndOn(t, y)
	b.connect(a)
	a.connect(b)
	b.ok(b.cq.Arm(false)) // softroce.Receive needs a completion that woke a goroutine
	a.send(0)
	a.want(verbs.WCSuccess)
	b.want(verbs.WCSuccess)
	test(b, func() { a.send(c.bytes) }, func() error { return c.end(b.qp) })
	a.want(c.want)
}

// TestLastAnswerIsSent receives the message as a leader does, which leaves the answer to the
// program's next post. There is no such post, and nobody else receives.
func TestLastAnswerIsSent(t *testing.T) {
	withEachAnswer(t, func(t *testing.T, c answered) {
		c.run(t, openSoft(t, "soft0"), openSoft(t, "soft0"), func(b *oneEnd, send func(), end func() error) {
			receive, stop := softroce.Receive(b.cq)
			t.Cleanup(stop)
			send()
			for n := 0; n == 0; {
				receive()
				var err error
				n, err = b.cq.Poll(make([]verbs.WC, 1))
				b.ok(err)
			}
			b.ok(end())
		})
	})
}

// takes is how long a goroutine sends one packet, in simulated time.
const takes = 50 * time.Millisecond

// sendsSlowly makes e's device take so long for the next packet that it sends. sending is closed when it begins.
func sendsSlowly(e *oneEnd) (sending <-chan struct{}, stop func() error) {
	begun, from, once := make(chan struct{}), gidOf(e.t, e.dev), sync.Once{}
	stop, err := softroce.Capture(e.dev, func(_ time.Time, ip []byte) error {
		if addr, _ := netip.AddrFromSlice(ip[8:24]); addr == from { // IPv6
			once.Do(func() { close(begun); time.Sleep(takes) })
		}
		return nil
	})
	e.ok(err)
	return begun, stop
}

// TestLastAnswerIsAwaited ends the queue pair while another goroutine is sending the answer.
func TestLastAnswerIsAwaited(t *testing.T) {
	withEachAnswer(t, func(t *testing.T, c answered) {
		synctest.Test(t, func(t *testing.T) {
			x, y := softroce.OpenSimulated(t)
			c.run(t, x, y, func(b *oneEnd, send func(), end func() error) {
				sending, stop := sendsSlowly(b)
				send()
				<-sending
				began := time.Now()
				b.ok(end())
				if took := time.Since(began); took < takes {
					t.Errorf("the queue pair ended before its answer was sent, after %v", took)
				}
				time.Sleep(takes) // the capture is locked until then
				b.ok(stop())
			})
		})
	})
}

// TestLastRequestIsAwaited posts a request while another goroutine is sending an answer of the queue pair, and closes the
// request's region, as gloo does.
func TestLastRequestIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, y := softroce.OpenSimulated(t)
		a, b := newOneEndOn(t, x), newOneEndOn(t, y)
		b.connect(a)
		a.connect(b)
		sending, stop := sendsSlowly(a)
		b.send(receiveBytes)
		<-sending
		a.want(verbs.WCSuccess)
		a.send(receiveBytes)
		a.ok(a.mr.Close())
		a.want(verbs.WCSuccess)
		b.want(verbs.WCSuccess)
		b.want(verbs.WCSuccess)
		a.ok(stop())
	})
}
