package rc

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// served is a running server. The end of the test stops it and checks that nothing is left.
type served struct {
	*Server
	address string
	region  *verbs.MR    // of 64 KiB, shared with all clients as "region"
	end     func()       // ends the context of Serve
	stop    func() error // does that, and waits for Serve
}

const regionSize = 64 << 10

// serve starts a server with one shared region. Without an SRQ, every Conn has four receives of slot
// bytes in memory of its own.
func serve(t *testing.T, cfg ServerConfig, handler func(context.Context, *Conn) error) *served {
	t.Helper()
	if cfg.Device == nil {
		cfg.Device = softtest.Open(t)
	}
	s := &served{}
	cfg.Access = remoteRights
	if cfg.Prepare == nil {
		cfg.Prepare = func(c *Conn) error {
			c.Share("region", s.region)
			if c.QP().SRQ() != nil {
				return nil
			}
			mr, err := c.AllocMR("receives", 4*slot, verbs.AccessLocalWrite)
			for i := 0; err == nil && i < 4*len(c.QPs()); i++ {
				err = c.QPs()[i/4].PostRecv([]verbs.RecvWR{{ID: uint64(i % 4), SGL: []verbs.SGE{mr.SGE(i%4*slot, slot)}}})
			}
			return err
		}
	}
	var err error
	if s.Server, err = NewServer(cfg); err != nil {
		t.Fatal(err)
	}
	if s.region, err = s.AllocMR("region", regionSize, verbs.AccessLocalWrite|remoteRights); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(t.Context(), "127.0.0.1:0", ListenConfig{Job: "serving", Timeout: cfg.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l, handler) }()
	s.end = cancel
	s.stop = sync.OnceValue(func() error {
		cancel()
		return testkit.Receive(t, done, "return of Serve")
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := s.Close(); err != nil { // EBUSY if a queue pair is left
			t.Errorf("Close of the server: %v", err)
		}
	})
	return s
}

// untilEOF reads messages until the client has finished.
func untilEOF(ctx context.Context, c *Conn) error {
	for {
		if _, err := c.WaitRecv(ctx); err != nil {
			return err
		}
	}
}

// client connects a client with 64 KiB of memory.
func (s *served) client(t testing.TB) (*Conn, *verbs.MR, error) {
	var mr *verbs.MR
	c, err := Dial(testkit.Context(t), s.address, Config{Device: s.dev, Job: "serving", QPs: s.cfg.QPs, Prepare: func(c *Conn) (err error) {
		mr, err = c.AllocMR("memory", regionSize, verbs.AccessLocalWrite)
		return err
	}})
	return c, mr, err
}

// mustClient is client that must succeed. The end of the test closes it.
func (s *served) mustClient(t testing.TB) (*Conn, *verbs.MR) {
	t.Helper()
	c, mr, err := s.client(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, mr
}

// leavesNothing checks at the end of the test that goroutines and descriptors are no more than now.
func leavesNothing(t *testing.T) {
	t.Helper()
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // the first one opens Go's poller
		l.Close()
	}
	count := func() (goroutines, files int) {
		list, _ := os.ReadDir("/proc/self/fd") // none where there is no /proc
		return runtime.NumGoroutine(), len(list)
	}
	goroutines, files := count()
	t.Cleanup(func() {
		var g, f int
		testkit.Until(t, "end of what the test began", func() bool {
			g, f = count()
			return g <= goroutines && f <= files
		}, func() string {
			stacks := make([]byte, 1<<20)
			return fmt.Sprintf("%d goroutines and %d descriptors, before %d and %d\n%s", g, f, goroutines, files, stacks[:runtime.Stack(stacks, true)])
		})
	})
}

// TestAServersMemoryIsRegisteredOnce checks that eight clients READ from one region, and that the
// server makes one domain and two completion queues for them.
func TestAServersMemoryIsRegisteredOnce(t *testing.T) {
	leavesNothing(t)
	dev, counts := openFaulty(t)
	srq := &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}
	s := serve(t, ServerConfig{Config: Config{Device: dev, SRQ: srq}}, untilEOF)
	copy(s.region.Bytes(), "written once")
	plain := softtest.Open(t)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c, err := Dial(t.Context(), s.address, Config{Device: plain})
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			mr, err := c.AllocMR("memory", 12, verbs.AccessLocalWrite)
			if err != nil {
				t.Error(err)
				return
			}
			remote, _ := c.PeerRegion("region")
			if err := c.Read(t.Context(), mr.Slice(0, 12), remote, 0); err != nil || string(mr.Bytes()) != "written once" {
				t.Errorf("%q, %v", mr.Bytes(), err)
			}
			if err := c.Finish(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
	if regions, domains, cqs := counts.made(); regions != 1 || domains != 1 || cqs != 2 {
		t.Errorf("%d regions registered, %d domains and %d completion queues made for 8 clients, want 1, 1 and 2", regions, domains, cqs)
	}
}

// TestAStolenKeyOpensNothing checks that neither another client's key nor the region's own key works.
func TestAStolenKeyOpensNothing(t *testing.T) {
	for name, cfg := range map[string]ServerConfig{
		"windows":                     {},
		"several queue pairs":         {Config: Config{QPs: 2}},
		"a device without windows":    {Config: Config{Device: func() *verbs.Device { dev, f := openFaulty(t); f.noWindows = true; return dev }()}},
		"windows, and one CQ for all": {Config: Config{OneCQ: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, cfg, func(ctx context.Context, _ *Conn) error { // which a queue pair in ERR does not end
				<-ctx.Done()
				return context.Cause(ctx)
			})
			owner, _ := s.mustClient(t)
			stolen, ok := owner.PeerRegion("region")
			if !ok {
				t.Fatal("the region is not shared")
			}
			for whose, rkey := range map[string]uint32{"another client's": stolen.RKey, "the region's own": s.region.RKey()} {
				thief, mr := s.mustClient(t)
				remote, _ := thief.PeerRegion("region")
				if err := thief.Write(t.Context(), mr.Slice(0, 8), remote, 8); err != nil {
					t.Errorf("by its own key: %v", err)
				}
				remote.RKey = rkey
				var failed *verbs.WCError
				if err := thief.Write(t.Context(), mr.Slice(0, 8), remote, 8); !errors.As(err, &failed) || failed.Status != verbs.WCRemAccessErr {
					t.Errorf("by %s key: %v, want IBV_WC_REM_ACCESS_ERR", whose, err)
				}
			}
			mr, err := owner.AllocMR("buffer", 8, verbs.AccessLocalWrite)
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Read(t.Context(), mr.Slice(0, 8), stolen, 0); err != nil {
				t.Errorf("the owner of the key: %v", err)
			}
		})
	}
}

func TestNewServerRefuses(t *testing.T) {
	dev := softtest.Open(t)
	bare, faults := openFaulty(t)
	faults.noWindows = true
	attr, err := dev.Query()
	if err != nil {
		t.Fatal(err)
	}
	srq := &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}
	for want, cfg := range map[string]ServerConfig{
		"Config.Job ":               {Config: Config{Device: dev, Job: "job"}},
		"Config.Exchange is set":    {Config: Config{Device: dev, Exchange: swap}},
		"MaxConns is -1":            {Config: Config{Device: dev}, MaxConns: -1},
		"or a lower MaxConns":       {Config: Config{Device: dev}, MaxConns: attr.MaxCQE},
		"2 queue pairs, or because": {Config: Config{Device: dev, SRQ: srq, QPs: 2}},
		"no memory windows of type": {Config: Config{Device: bare, SRQ: srq}},
	} {
		if s, err := NewServer(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
			if err == nil {
				s.Close()
			}
		}
	}
}

// TestShareRefusesARegionWithoutRights checks the error that the client gets.
func TestShareRefusesARegionWithoutRights(t *testing.T) {
	s := serve(t, ServerConfig{Config: Config{Prepare: func(c *Conn) error {
		mr, err := c.AllocMR("private", 8, verbs.AccessLocalWrite)
		if err == nil {
			c.Share("private", mr)
		}
		return err
	}}}, untilEOF)
	if _, _, err := s.client(t); err == nil || !strings.Contains(err.Error(), `share the region "private": it was registered without a remote right`) {
		t.Errorf("got %v", err)
	}
}

// TestTheLastMessagesComeBeforeEOF has clients that finish right after their last send.
func TestTheLastMessagesComeBeforeEOF(t *testing.T) {
	for _, oneCQ := range []bool{false, true} {
		t.Run(fmt.Sprintf("OneCQ %v", oneCQ), func(t *testing.T) {
			var lost atomic.Int32
			s := serve(t, ServerConfig{Config: Config{OneCQ: oneCQ}}, func(ctx context.Context, c *Conn) error {
				for n := 0; ; n++ {
					if _, err := c.WaitRecv(ctx); err == io.EOF {
						if n != 4 {
							lost.Add(1)
						}
						return nil
					} else if err != nil {
						return err
					}
				}
			})
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					for range 5 {
						c, mr, err := s.client(t)
						for i := 0; err == nil && i < 4; i++ {
							err = c.Send(t.Context(), mr.Slice(0, 8))
						}
						if err == nil {
							err = c.Finish(t.Context())
						}
						if err != nil {
							t.Error(err)
							return
						}
						c.Close()
					}
				})
			}
			clients.Wait()
			if n := lost.Load(); n != 0 {
				t.Errorf("%d handlers of 40 got EOF before the last message", n)
			}
		})
	}
}

// TestEOFIsForThoseWhoFinish checks that a wait returns io.EOF when the peer has finished, and another
// error when the peer closes without Finish.
func TestEOFIsForThoseWhoFinish(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	finished := make(chan error, 1)
	time.AfterFunc(testkit.Moment, func() { finished <- c.Finish(t.Context()) })
	if _, err := s.WaitRecv(t.Context()); err != io.EOF {
		t.Errorf("WaitRecv: %v, want io.EOF", err)
	}
	if _, err := s.Recv(t.Context(), s.mr.Slice(0, 8)); !errors.Is(err, io.EOF) {
		t.Errorf("Recv: %v, want io.EOF", err)
	}
	if err := s.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-finished; err != nil {
		t.Error(err)
	}
	c, s = pair(t, Config{}, Config{})
	c.Close()
	var closed *oob.ClosedError
	if _, err := s.WaitRecv(t.Context()); errors.Is(err, io.EOF) || !errors.As(err, &closed) {
		t.Errorf("WaitRecv after the peer is gone: %v", err)
	}
}

// TestAHandlersErrorIsReported checks that the client gets it, and that the server logs it and goes on.
func TestAHandlersErrorIsReported(t *testing.T) {
	leavesNothing(t)
	records := &recorder{}
	var exits atomic.Bool
	s := serve(t, ServerConfig{Config: Config{Logger: slog.New(records)}}, func(ctx context.Context, c *Conn) error {
		if exits.Load() {
			runtime.Goexit()
		}
		return errors.New("the disk is full")
	})
	for _, want := range []string{"the disk is full", "without an error"} {
		c, _ := s.mustClient(t)
		var failed *oob.PeerError
		if _, err := c.WaitRecv(t.Context()); !errors.As(err, &failed) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		c.Close()
		exits.Store(true)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if records.count("client failed") == 0 {
		t.Errorf("the Logger got %q", records.texts)
	}
}

// TestUnreadReceivesAreGivenBack has a handler that leaves completions of an SRQ unread.
func TestUnreadReceivesAreGivenBack(t *testing.T) {
	for _, oneCQ := range []bool{false, true} {
		t.Run(fmt.Sprintf("OneCQ %v", oneCQ), func(t *testing.T) {
			unread := make(chan verbs.WC, 8)
			sent := make(chan struct{})
			cfg := ServerConfig{Config: Config{OneCQ: oneCQ, SRQ: &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}}, Unread: func(wc verbs.WC) { unread <- wc }}
			s := serve(t, cfg, func(ctx context.Context, c *Conn) error {
				<-sent
				_, err := c.WaitRecv(ctx)
				return errors.Errorf("enough (%v)", err)
			})
			for id := range 8 {
				if err := s.SRQ().PostRecv([]verbs.RecvWR{{ID: uint64(100 + id), SGL: []verbs.SGE{s.region.SGE(id*slot, slot)}}}); err != nil {
					t.Fatal(err)
				}
			}
			c, mr := s.mustClient(t)
			for range 3 {
				if err := c.Send(t.Context(), mr.Slice(0, 8)); err != nil {
					t.Fatal(err)
				}
			}
			close(sent)
			<-c.Context().Done()
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if n := len(unread); n != 2 {
				t.Errorf("%d receives were given back, want 2", n)
			}
			for len(unread) > 0 {
				if wc := <-unread; wc.ID != 101 && wc.ID != 102 {
					t.Errorf("%+v", wc)
				}
			}
		})
	}
}

// TestUnreadReceivesSurviveAFailedDrain has a queue pair that cannot be moved to ERR.
func TestUnreadReceivesSurviveAFailedDrain(t *testing.T) {
	dev, faults := openFaulty(t)
	faults.modify = func(to *verbs.QPAttr) error {
		if to.State == verbs.QPSErr {
			return syscall.EIO
		}
		return nil
	}
	unread := make(chan verbs.WC, 8)
	sent := make(chan struct{})
	cfg := ServerConfig{Config: Config{Device: dev, SRQ: &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}}, Unread: func(wc verbs.WC) { unread <- wc }}
	s := serve(t, cfg, func(context.Context, *Conn) error {
		<-sent
		return errors.New("enough")
	})
	if err := s.SRQ().PostRecv([]verbs.RecvWR{{ID: 100, SGL: []verbs.SGE{s.region.SGE(0, slot)}}}); err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), s.address, Config{Device: softtest.Open(t)}) // which can be drained
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Send(t.Context(), verbs.MRSlice{}); err != nil {
		t.Fatal(err)
	}
	close(sent)
	<-c.Context().Done()
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	close(unread)
	if wc := <-unread; wc.ID != 100 {
		t.Errorf("Unread got %+v, want the receive 100", wc)
	}
}

// TestSixtyFourClientsAtOnce counts the messages of 64 clients.
func TestSixtyFourClientsAtOnce(t *testing.T) {
	leavesNothing(t)
	var messages atomic.Int32
	s := serve(t, ServerConfig{Config: Config{Timeout: testkit.Limit}}, func(ctx context.Context, c *Conn) error {
		for {
			if _, err := c.WaitRecv(ctx); err != nil {
				return err
			}
			messages.Add(1)
		}
	})
	var clients sync.WaitGroup
	for range 64 {
		clients.Go(func() {
			c, mr, err := s.client(t)
			for i := 0; err == nil && i < 4; i++ {
				err = c.Send(t.Context(), mr.Slice(0, 8))
			}
			if err == nil {
				err = c.Finish(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
			if c != nil {
				c.Close()
			}
		})
	}
	clients.Wait()
	if n := messages.Load(); n != 256 {
		t.Errorf("%d messages of 256", n)
	}
}
