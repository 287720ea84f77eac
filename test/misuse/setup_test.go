// The correct half of the programs: two connected ends, and queue pairs of plain verbs.

package misuse_test

import (
	"context"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testdevice"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	rights    = verbs.AccessRemoteRead | verbs.AccessRemoteWrite | verbs.AccessRemoteAtomic
	tableSize = 4096
)

// must ends the test if the correct half of a program fails.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errOf drops the result of a call that is to fail.
func errOf[T any](_ T, err error) error { return err }

func openDevice(t *testing.T) *verbs.Device {
	t.Helper()
	dev := must(verbs.Open(testdevice.Name(t)))(t)
	t.Cleanup(func() { check(t, dev.Close()) })
	return dev
}

// connect connects a client and a server, which shares tableSize bytes with every right.
// prepare, if not nil, is the client's.
func connect(t *testing.T, prepare func(*rc.Conn) error) (client, server *rc.Conn, table oob.Region) {
	t.Helper()
	ctx, dev := t.Context(), openDevice(t)
	l := must(rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{}))(t)
	defer l.Close()
	type result struct {
		conn *rc.Conn
		err  error
	}
	accepted := make(chan result, 1)
	go func() {
		conn, err := serve(ctx, l, dev)
		accepted <- result{conn, err}
	}()
	client, err := rc.Dial(ctx, l.Addr().String(), rc.Config{Device: dev, Prepare: prepare})
	peer := testkit.Receive(t, accepted, "end of the server's Connect")
	for _, conn := range []*rc.Conn{client, peer.conn} {
		if conn != nil {
			t.Cleanup(func() { check(t, conn.Close()) })
		}
	}
	check(t, err)
	check(t, peer.err)
	table, ok := client.PeerRegion("table")
	if !ok {
		t.Fatal("the server shares no table")
	}
	return client, peer.conn, table
}

func serve(ctx context.Context, l *rc.Listener, dev *verbs.Device) (*rc.Conn, error) {
	in, err := l.Accept(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := in.Hello(ctx); err != nil {
		in.Refuse(err)
		return nil, err
	}
	return in.Connect(ctx, rc.Config{Device: dev, Access: rights, Prepare: func(c *rc.Conn) error {
		mr, err := c.AllocMR("table", tableSize, verbs.AccessLocalWrite|rights)
		if err == nil {
			c.Share("table", mr)
		}
		return err
	}})
}

// local registers a page of a Conn.
func local(t *testing.T, c *rc.Conn, access verbs.Access) *verbs.MR {
	t.Helper()
	return must(c.AllocMR("local", 4096, access))(t)
}

// post posts one request of plain verbs and waits for its completion.
func post(t *testing.T, c *rc.Conn, wr verbs.SendWR) error {
	wr.Flags |= verbs.SendSignaled
	if err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
		return err
	}
	return errOf(c.WaitSend(t.Context()))
}

// newQP makes a queue pair of plain verbs, in RESET.
func newQP(t *testing.T, dev *verbs.Device, pd *verbs.PD, typ verbs.QPType) *verbs.QP {
	t.Helper()
	cq := must(dev.CreateCQ(verbs.CQInit{Depth: 4}))(t)
	t.Cleanup(func() { check(t, cq.Close()) })
	qp := must(pd.CreateQP(verbs.QPInit{Type: typ, SendCQ: cq, RecvCQ: cq,
		Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}}))(t)
	t.Cleanup(func() { check(t, qp.Close()) })
	return qp
}

func newPD(t *testing.T, dev *verbs.Device) *verbs.PD {
	t.Helper()
	pd := must(dev.AllocPD())(t)
	t.Cleanup(func() { check(t, pd.Close()) })
	return pd
}

// initOf are the attributes of RESET→INIT.
func initOf() *verbs.QPAttr {
	return &verbs.QPAttr{State: qpstate.Init, PortNum: 1, QKey: 0x1234}
}
