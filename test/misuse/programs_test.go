package misuse_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

var mistakes = []mistake{
	{"An unaligned atomic", []program{
		{"rc: FetchAdd at byte 12 of the peer's region", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			return errOf(conn.FetchAdd(t.Context(), table, 12, 1))
		}, nil},
		{"verbs: PostSend of the same", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, verbs.AccessLocalWrite)
			return post(t, conn, verbs.SendWR{Opcode: verbs.OpAtomicFetchAndAdd, CompareAdd: 1, SGL: []verbs.SGE{mr.SGE(0, 8)},
				RemoteAddr: table.Addr + 12, RKey: table.RKey})
		}, syscall.EINVAL},
	}},
	{"READ into a region without LOCAL_WRITE", []program{
		{"rc: Read into a region that was registered to be sent from", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, 0)
			return conn.Read(t.Context(), mr.Slice(0, 64), table, 0)
		}, nil},
		{"verbs: PostSend of the same, and its completion", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, 0)
			return post(t, conn, verbs.SendWR{ID: 7, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{mr.SGE(0, 64)},
				RemoteAddr: table.Addr, RKey: table.RKey})
		}, failed(verbs.WCLocProtErr)},
	}},
	{"An address handle (AH) of another protection domain", []program{
		{"verbs: PostSend of a datagram", anotherDomainsAH, syscall.EINVAL},
	}},
	{"A post before the queue pair is ready", []program{
		{"rc: Send in Config.Prepare, where the queue pair is in INIT", func(t *testing.T) (err error) {
			connect(t, func(conn *rc.Conn) error {
				err = conn.Send(t.Context(), local(t, conn, 0).Slice(0, 64))
				return nil
			})
			return err
		}, nil},
		{"verbs: PostSend in INIT", func(t *testing.T) error {
			dev := openDevice(t)
			qp := newQP(t, dev, newPD(t, dev), verbs.RC)
			check(t, qp.Machine(nil).ToInit(*initOf()))
			return qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
		}, syscall.EINVAL},
		{"verbs: PostRecv in RESET", func(t *testing.T) error {
			dev := openDevice(t)
			qp := newQP(t, dev, newPD(t, dev), verbs.RC)
			return qp.PostRecv([]verbs.RecvWR{{}})
		}, syscall.EINVAL},
	}},
	{"A buffer reused before its request completed", []program{
		{"rc: Send ended by its deadline", func(t *testing.T) error {
			conn, _, _ := connect(t, nil)
			mr := local(t, conn, 0)
			return conn.Send(newExpiring(t, conn), mr.Slice(0, 64)) // the peer has posted no receive
		}, context.DeadlineExceeded},
	}},
	{"Close while others use the object", []program{
		{"rc: Read after Close", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, verbs.AccessLocalWrite)
			check(t, conn.Close())
			return conn.Read(t.Context(), mr.Slice(0, 64), table, 0)
		}, net.ErrClosed},
		{"rc: Send when another goroutine calls Close", func(t *testing.T) error {
			conn, _, _ := connect(t, nil)
			mr := local(t, conn, 0)
			oncePosted(t, conn, func() { conn.Close() })
			return conn.Send(t.Context(), mr.Slice(0, 64))
		}, net.ErrClosed},
		{"verbs: PostSend after Close", func(t *testing.T) error {
			dev := openDevice(t)
			qp := newQP(t, dev, newPD(t, dev), verbs.RC)
			check(t, qp.Close())
			return qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend}})
		}, net.ErrClosed},
		{"verbs: Close of a protection domain that has a region", func(t *testing.T) error {
			pd := newPD(t, openDevice(t))
			mr := must(pd.AllocMR(4096, verbs.AccessLocalWrite))(t)
			defer mr.Close()
			return pd.Close()
		}, syscall.EBUSY},
	}},
	{"A forgotten import", []program{
		{"verbs: Open of soft0 without package softroce", func(t *testing.T) error {
			return openSoft0WithoutImport(t, "")
		}, nil},
		{"the same, built without cgo", func(t *testing.T) error {
			return openSoft0WithoutImport(t, "CGO_ENABLED=0")
		}, nil},
	}},
	{"A cancelled request, then the next one", []program{
		{"rc: Do with a context that ends; the next Do gets its own completion", cancelledThenNext, context.DeadlineExceeded},
	}},
	{"A missing mask bit", []program{
		{"verbs: Modify to INIT without PKEY_INDEX", func(t *testing.T) error {
			return toInit(t, qpstate.MaskState|qpstate.MaskPort|qpstate.MaskAccessFlags)
		}, syscall.EINVAL},
		{"verbs: Modify to INIT without STATE", func(t *testing.T) error {
			return toInit(t, qpstate.MaskPKeyIndex|qpstate.MaskPort|qpstate.MaskAccessFlags)
		}, syscall.EINVAL},
	}},
	{"More bytes than the region has", []program{
		{"rc: Write from beyond the local region", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, 0)
			return conn.Write(t.Context(), mr.Slice(4090, 9), table, 0)
		}, nil},
		{"rc: Write beyond the peer's region", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, 0)
			return conn.Write(t.Context(), mr.Slice(0, 9), table, 4090)
		}, nil},
		{"verbs: MR.SGE beyond the region, which panics", func(t *testing.T) (err error) {
			mr := must(newPD(t, openDevice(t)).AllocMR(4096, 0))(t)
			defer mr.Close()
			defer func() { err = errors.New(fmt.Sprint(recover())) }()
			mr.SGE(4090, 9)
			return nil
		}, nil},
		{"verbs: PostSend of a WRITE beyond the peer's region, and its completion", func(t *testing.T) error {
			conn, _, table := connect(t, nil)
			mr := local(t, conn, 0)
			return post(t, conn, verbs.SendWR{ID: 7, Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{mr.SGE(0, 9)},
				RemoteAddr: table.Addr + 4090, RKey: table.RKey})
		}, failed(verbs.WCRemAccessErr)},
	}},
}

// oncePosted calls f in another goroutine when the queue pair has sent its next packet. f has returned when the
// test ends.
func oncePosted(t *testing.T, conn *rc.Conn, f func()) {
	t.Helper()
	next := func() uint32 {
		attr, err := conn.QP().Query(qpstate.MaskSQPSN)
		if err != nil {
			t.Error(err)
		}
		return attr.SQPSN
	}
	first, done := next(), make(chan struct{})
	go func() {
		defer close(done)
		for deadline := testkit.Deadline(); next() == first && time.Now().Before(deadline); {
			time.Sleep(testkit.Moment / 20)
		}
		f()
	}()
	t.Cleanup(func() { <-done })
}

// expiring is a context whose deadline passes when over is closed.
type expiring struct {
	context.Context
	over chan struct{}
}

// newExpiring returns a context whose deadline passes while the connection's next request is in flight.
func newExpiring(t *testing.T, conn *rc.Conn) context.Context {
	t.Helper()
	ctx := expiring{context.Background(), make(chan struct{})}
	oncePosted(t, conn, func() { close(ctx.over) })
	return ctx
}

func (e expiring) Done() <-chan struct{} { return e.over }

func (e expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// anotherDomainsAH sends a datagram to itself, by an address handle of the wrong domain.
func anotherDomainsAH(t *testing.T) error {
	dev := openDevice(t)
	mine, other := newPD(t, dev), newPD(t, dev)
	qp := newQP(t, dev, mine, verbs.UD)
	m := qp.Machine(nil)
	check(t, m.ToInit(*initOf()))
	check(t, m.ToRTR(verbs.QPAttr{}))
	check(t, m.ToRTS(verbs.QPAttr{}))
	gid, _, err := verbs.ChooseGID(must(dev.QueryGIDTable())(t), verbs.GIDSelection{})
	check(t, err)
	ah := must(other.CreateAH(gid.To(gid.GID)))(t)
	defer ah.Close()
	return qp.PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, AH: ah, RemoteQPN: qp.QPN(), RemoteQKey: 0x1234}})
}

// cancelledThenNext leaves request 1 in flight, and does request 2 once there is a receive for
// the first.
func cancelledThenNext(t *testing.T) error {
	conn, server, table := connect(t, nil)
	mr := local(t, conn, verbs.AccessLocalWrite)
	_, first := conn.Do(newExpiring(t, conn), &verbs.SendWR{ID: 1, Opcode: verbs.OpSend, SGL: []verbs.SGE{mr.SGE(0, 8)}})
	inbox := local(t, server, verbs.AccessLocalWrite)
	check(t, server.QP().PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{inbox.SGE(0, 64)}}}))
	wc, err := conn.Do(t.Context(), &verbs.SendWR{ID: 2, Opcode: verbs.OpRDMARead, SGL: []verbs.SGE{mr.SGE(64, 8)}, RemoteAddr: table.Addr, RKey: table.RKey})
	if err != nil || wc.ID != 2 || wc.Opcode != verbs.WCRDMARead {
		t.Errorf("request 2 got %+v, %v", wc, err)
	}
	return first
}

// toInit moves a new queue pair to INIT with a mask.
func toInit(t *testing.T, mask verbs.QPAttrMask) error {
	dev := openDevice(t)
	return newQP(t, dev, newPD(t, dev), verbs.RC).Modify(initOf(), mask)
}
