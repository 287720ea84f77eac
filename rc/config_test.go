package rc

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestAFieldWithoutEffectIsRefused checks that the error names the field.
func TestAFieldWithoutEffectIsRefused(t *testing.T) {
	srq, timing := &verbs.SRQInit{MaxWR: 4, MaxSGE: 1}, DefaultTiming()
	exchange := func(context.Context, *Conn, func([]oob.Endpoint) error) error { return nil }
	for want, cfg := range map[string]Config{
		"Config.Job":            {Exchange: exchange, Job: "job"},
		"Config.Program":        {Exchange: exchange, Program: "program"},
		"Config.Params":         {Exchange: exchange, Params: map[string]string{"a": "b"}},
		"Config.QKey":           {QKey: 1},
		"Config.Access":         {Type: verbs.UD, Access: verbs.AccessRemoteRead},
		"Config.Timing":         {Type: verbs.UC, Timing: &timing},
		"Config.MaxReads":       {Type: verbs.UD, MaxReads: 1},
		"Config.Cap.MaxRecvWR":  {SRQ: srq, Cap: verbs.QPCap{MaxRecvWR: 1}},
		"Config.Cap.MaxRecvSGE": {SRQ: srq, Cap: verbs.QPCap{MaxRecvSGE: 1}},
		"the Timeout 0":         {Timing: &Timing{RetryCnt: 3}}, // the program meant the defaults of the others
		"Config.Spin is -1ns;":  {Spin: -1},
		"the Timeout 14":        {Timing: &Timing{Timeout: 14, Forever: true}},
	} {
		if _, err := Dial(t.Context(), "127.0.0.1:1", cfg); err == nil || !strings.Contains(err.Error(), want+" ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
	for want, server := range map[string]Config{
		"Config.Job":     {Job: "job"},
		"Config.Program": {Program: "program"},
		"Config.Params":  {Params: map[string]string{"a": "b"}},
	} {
		_, _, cerr, serr := dialPair(t, Config{}, server)
		var refused *oob.PeerError
		if serr == nil || !strings.Contains(serr.Error(), want+" ") || !errors.As(cerr, &refused) {
			t.Errorf("%s: client %v, server %v", want, cerr, serr)
		}
	}
}

// TestTimeoutAndDeadline checks that a step of the connecting ends with the smaller of Config.Timeout and what is left of the context.
func TestTimeoutAndDeadline(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // TCP connects, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	dev := softtest.Open(t)
	for name, test := range map[string]struct {
		ctx     context.Context
		timeout time.Duration
	}{
		"Timeout": {testkit.Context(t), testkit.Moment},
		"context": {testkit.Expiring(t), testkit.Limit},
	} {
		_, err := Dial(test.ctx, silent.Addr().String(), Config{Device: dev, Timeout: test.timeout})
		if ended := test.ctx.Err() != nil; err == nil || ended != (name == "context") {
			t.Errorf("%s: %v; the context has ended: %v", name, err, ended)
		}
	}
}

// TestConnectUsesItsOwnTimeout checks that Connect does not use the listener's Timeout. The listener has no limit. The
// server waits in Prepare for a message that does not come.
func TestConnectUsesItsOwnTimeout(t *testing.T) {
	dev := softtest.Open(t)
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer context.AfterFunc(testkit.Context(t), cancel)()
	waited, dialed := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(waited) })
	t.Cleanup(release)
	go func() {
		defer close(dialed)
		if _, err := Dial(ctx, l.Addr().String(), Config{Device: dev, Prepare: func(*Conn) error { <-waited; return nil }}); err == nil {
			t.Error("the client is connected")
		}
	}()
	in, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Hello(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = in.Connect(ctx, Config{Device: dev, Timeout: testkit.Moment, Prepare: func(c *Conn) error {
		defer release()
		_, err := c.TCP().RecvNote(ctx, "")
		return err
	}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	release() // also if Connect failed before Prepare
	testkit.Receive(t, dialed, "end of Dial")
}
