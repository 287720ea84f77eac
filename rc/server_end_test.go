package rc

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestServeEndsGracefully has a handler that waits, which returns at once, and one that works on and
// gets the time for that.
func TestServeEndsGracefully(t *testing.T) {
	leavesNothing(t)
	entered, work := make(chan struct{}, 2), make(chan struct{})
	worked := false
	s := serve(t, ServerConfig{Grace: testkit.Limit}, func(ctx context.Context, c *Conn) error {
		entered <- struct{}{}
		if _, err := c.WaitRecv(ctx); err != nil {
			return err
		}
		<-ctx.Done()
		<-work
		worked = true
		_, err := c.WaitRecv(context.WithoutCancel(ctx))
		return err
	})
	idle, _ := s.mustClient(t)
	busy, mr := s.mustClient(t)
	<-entered
	<-entered
	if err := busy.Send(t.Context(), mr.Slice(0, 8)); err != nil {
		t.Fatal(err)
	}
	s.end()
	var failed *oob.PeerError
	if _, err := idle.WaitRecv(t.Context()); !errors.As(err, &failed) || !strings.Contains(err.Error(), errStopping.Error()) {
		t.Errorf("the idle client: %v", err)
	}
	if _, _, err := s.client(t); err == nil {
		t.Error("a client was let in after the end")
	}
	if err := busy.Send(t.Context(), mr.Slice(0, 8)); err != nil {
		t.Errorf("the busy client: %v", err)
	}
	close(work)
	if err := busy.Finish(t.Context()); err != nil { // the handler gets a message, not EOF, and returns nil
		t.Errorf("the busy client's Finish: %v", err)
	}
	if err := s.stop(); err != nil || !worked {
		t.Errorf("Serve: %v; worked: %v", err, worked)
	}
}

// TestAHandlerThatDoesNotReturnIsCutOff checks that its waits end after Grace, and Serve's error.
func TestAHandlerThatDoesNotReturnIsCutOff(t *testing.T) {
	leavesNothing(t)
	entered, got := make(chan struct{}), make(chan error, 1)
	s := serve(t, ServerConfig{Grace: testkit.Moment}, func(_ context.Context, c *Conn) error {
		close(entered)
		_, err := c.WaitRecv(context.Background())
		got <- err
		return err
	})
	c, _ := s.mustClient(t)
	<-entered
	if err := s.Close(); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Close of a server that serves: %v, want EBUSY", err)
	}
	if err := s.stop(); err == nil || !strings.Contains(err.Error(), "1 handlers still ran "+testkit.Moment.String()+" after") {
		t.Errorf("Serve: %v", err)
	}
	if err := <-got; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the handler's wait: %v", err)
	}
	var failed *oob.PeerError
	if _, err := c.WaitRecv(t.Context()); !errors.As(err, &failed) {
		t.Errorf("the client: %v", err)
	}
	s.stop = func() error { return nil } // it failed, as it was to
}

// TestAHandlerThatReturnedIsNotLate: only a client that does not come to its Finish is left, and Grace ends it.
func TestAHandlerThatReturnedIsNotLate(t *testing.T) {
	leavesNothing(t)
	s := serve(t, ServerConfig{Grace: testkit.Moment}, func(context.Context, *Conn) error { return nil })
	c, _ := s.mustClient(t)
	if _, err := c.WaitRecv(t.Context()); err != io.EOF {
		t.Errorf("a wait after the server's end of the job: %v", err)
	}
	if err := s.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestAClientFinishesWithinGrace: the end of Serve's context does not end a client whose handler has returned nil.
func TestAClientFinishesWithinGrace(t *testing.T) {
	leavesNothing(t)
	s := serve(t, ServerConfig{Grace: testkit.Limit}, func(context.Context, *Conn) error { return nil })
	c, _ := s.mustClient(t)
	if _, err := c.WaitRecv(t.Context()); err != io.EOF {
		t.Errorf("a wait after the server's end of the job: %v", err)
	}
	s.end()
	if err := c.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	if err := s.stop(); err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// TestAClientThatDiesAtAnyStep checks that the server frees everything and goes on.
func TestAClientThatDiesAtAnyStep(t *testing.T) {
	leavesNothing(t)
	handled := make(chan error, 16)
	s := serve(t, ServerConfig{MaxConns: 4}, func(ctx context.Context, c *Conn) error {
		err := untilEOF(ctx, c)
		handled <- err
		return err
	})
	endpoint := oob.Endpoint{QPType: oob.QPTypeRC, QPN: 0xfffff0, PSN: 1, GID: netip.MustParseAddr("127.0.0.1").As16(), MTU: 256}
	hello := func(c *oob.Conn) error {
		_, err := c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: "serving"})
		return err
	}
	endpoints := func(c *oob.Conn) error {
		if err := hello(c); err != nil {
			return err
		}
		_, err := c.ExchangeEndpoint(t.Context(), endpoint)
		return err
	}
	regions := func(c *oob.Conn) error {
		if err := endpoints(c); err != nil {
			return err
		}
		_, err := c.ExchangeRegions(t.Context(), nil)
		return err
	}
	for name, die := range map[string]func(*oob.Conn) error{
		"before the hello":    func(*oob.Conn) error { return nil },
		"after the hello":     hello,
		"after the endpoints": endpoints,
		"after the regions":   regions,
		"before it is in RTS": func(c *oob.Conn) error { return errors.Wrap(barrierAfter(t, c, regions), "barrier") },
		"with another job": func(c *oob.Conn) error {
			_, _ = c.Hello(t.Context(), oob.Hello{Role: oob.RoleClient, Job: "other"})
			return nil
		},
		"with noise":           func(c *oob.Conn) error { return c.WriteAll(t.Context(), "noise", []byte("GET / HTTP/1.0\r\n\r\n")) },
		"with a short hello":   func(c *oob.Conn) error { return c.WriteAll(t.Context(), "noise", []byte("RVX")) },
		"without a sign of it": func(c *oob.Conn) error { time.Sleep(testkit.Moment); return nil },
	} {
		tcp, err := oob.Dial(t.Context(), s.address, oob.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := die(tcp); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		tcp.Close()
		testkit.Until(t, "end of the client "+name, func() bool { return s.admission.Usage().Clients == 0 })
	}
	c, _ := s.mustClient(t) // dies in the handler
	c.tcp.Close()
	if err := testkit.Receive(t, handled, "end of the handler of a client that died"); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the handler of a client that died: %v", err)
	}
	again, _ := s.mustClient(t)
	if err := again.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	again.Close()
}

// barrierAfter takes the steps and then the barrier "receives posted".
func barrierAfter(t *testing.T, c *oob.Conn, steps func(*oob.Conn) error) error {
	if err := steps(c); err != nil {
		return err
	}
	return c.Barrier(t.Context(), barrierReceives)
}

// TestServeEndsDuringConnects ends Serve at many moments and checks that nothing is left.
func TestServeEndsDuringConnects(t *testing.T) {
	leavesNothing(t)
	dev := softtest.Open(t)
	for round := range 10 {
		s := serve(t, ServerConfig{Config: Config{Device: dev}}, untilEOF)
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				if c, _, err := s.client(t); err == nil {
					_ = c.Finish(t.Context()) // which may meet the server's end
					c.Close()
				}
			})
		}
		time.Sleep(time.Duration(round) * 3 * time.Millisecond)
		if err := s.stop(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
		clients.Wait()
		if err := s.Close(); err != nil {
			t.Errorf("round %d: %v", round, err)
		}
	}
}
