//go:build !rdma

package run

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/secure/credentials"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// running is a server of this process.
type running struct {
	t       *testing.T
	counts  *Counts
	log     chan map[string]any
	address string
	stop    func()
}

// serves runs a server until the test ends.
func serves(t *testing.T, device string, change func(*ServerOptions)) *running {
	t.Helper()
	selection, err := newSelection(ServerRole, native, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &running{t: t, counts: new(Counts), log: make(chan map[string]any, 1000)}
	o := ServerOptions{
		Options:   Options{Device: device, IBPort: 1, Timeout: testkit.Limit, Logger: slog.New(slog.NewJSONHandler(s, nil))},
		Selection: selection, Listen: "127.0.0.1", MaxClients: 4, MaxSize: DefaultMaxSize, Counts: s.counts,
	}
	if change != nil {
		change(&o)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	s.stop = stop
	go func() { served <- Serve(ctx, o) }()
	t.Cleanup(func() {
		stop()
		testkit.Receive(t, served, "end of the server") // a client may be cut short
	})
	s.address = s.event("server.listening")["address"].(string)
	return s
}

// Write takes a line of the log.
func (s *running) Write(line []byte) (int, error) {
	var record map[string]any
	if err := json.Unmarshal(line, &record); err != nil {
		return 0, err
	}
	s.log <- record
	return len(line), nil
}

// event waits for an event.
func (s *running) event(kind string) map[string]any {
	s.t.Helper()
	for {
		if record := testkit.Receive(s.t, s.log, kind); record["event"] == kind {
			return record
		}
	}
}

// TestNothingIsMissingBeforeItHappens checks that a new server has a count for each job that it does.
func TestNothingIsMissingBeforeItHappens(t *testing.T) {
	for _, test := range []struct{ allow, want []string }{{nil, JobNames()}, {[]string{"file", "send"}, []string{"file", "send"}}} {
		s := serves(t, softtest.Name(t), func(o *ServerOptions) { o.Allow = test.allow })
		var has []string
		for _, j := range s.counts.Snapshot().Jobs {
			if has = append(has, j.Job); j.Succeeded+j.Failed > 0 {
				t.Errorf("%+v", j)
			}
		}
		if slices.Sort(test.want); !slices.Equal(has, test.want) {
			t.Errorf("%v, want %v", has, test.want)
		}
	}
}

// TestDurations checks, in simulated time, that a run counts for each class that it fits into.
func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Counts
		c.expect([]string{"send"})
		began := time.Now()
		time.Sleep(3 * time.Second)
		c.finished("send", began, 0, nil)
		j := c.Snapshot().Jobs[0]
		for i, most := range Durations {
			if fits := most >= 3*time.Second; (j.Within[i] == 1) != fits {
				t.Errorf("a run of %v: %d runs of at most %v", j.Took, j.Within[i], most)
			}
		}
	})
}

// TestRefusals checks the reasons for which connections begin no job.
func TestRefusals(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "lab"), time.Now()
	if err := credentials.Make(dir, []string{"127.0.0.1"}, []string{credentials.Client}, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	dev := softtest.Open(t)
	write := func(text string) func(*testing.T, string) {
		return func(t *testing.T, address string) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				conn.Close()
			}
			t.Cleanup(func() { conn.Close() })
		}
	}
	ask := func(hello oob.Hello) func(*testing.T, string) {
		return func(t *testing.T, address string) {
			conn, err := rc.Dial(t.Context(), address, rc.Config{Device: dev, Job: hello.Job, Params: hello.Params})
			if err == nil {
				conn.Close()
				t.Error("the server took the client")
			}
		}
	}
	secured := func(o *ServerOptions) { o.TLS = filepath.Join(dir, credentials.Server) }
	for _, test := range []struct {
		why    Refusal
		name   string
		change func(*ServerOptions)
		client func(t *testing.T, address string)
	}{
		{RefusedClosed, "a probe", nil, write("")},
		{RefusedClosed, "a probe of TLS", secured, write("")},
		{RefusedClosed, "a part of a hello of TLS", secured, func(t *testing.T, address string) {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte{22, 3, 1, 2, 0, 1}); err != nil {
				t.Fatal(err)
			}
		}},
		{RefusedSilent, "no hello", func(o *ServerOptions) { o.Timeout = testkit.Moment }, write("RVOB")},
		{RefusedProtocol, "HTTP", nil, write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{RefusedTLS, "no TLS", secured, ask(oob.Hello{Job: "send"})},
		{RefusedProtocol, "HTTP to TLS", secured, write("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{RefusedTLS, "a record of TLS without a hello", secured, write("\x16\x03\x01\x00\x04\x02\x00\x00\x00")},
		{RefusedJob, "an unknown job", nil, ask(oob.Hello{Job: "nosuch"})},
		{RefusedJob, "a job that is not allowed", func(o *ServerOptions) { o.Allow = []string{"file"} }, ask(oob.Hello{Job: "send"})},
		{RefusedClients, "no place", func(o *ServerOptions) { o.Once = true }, func(t *testing.T, address string) {
			first := oob.Hello{Job: "send", Params: map[string]string{"size": "4096", "max_size": "4096"}}
			conn, err := rc.Dial(t.Context(), address, rc.Config{Device: dev, Job: first.Job, Params: first.Params})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			ask(first)(t, address)
		}},
		{RefusedMemory, "no memory", func(o *ServerOptions) { o.MaxMemory = 8 << 20 }, ask(oob.Hello{Job: "send", Params: map[string]string{"size": "33554432"}})},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := serves(t, softtest.Name(t), test.change)
			test.client(t, s.address)
			var now Snapshot
			testkit.Until(t, "a refused connection", func() bool {
				now = s.counts.Snapshot()
				return now.Refused[test.why] == 1
			}, func() string { return test.why.String() })
			for why, n := range now.Refused {
				if n > 0 && Refusal(why) != test.why {
					t.Errorf("%d for the reason %v", n, Refusal(why))
				}
			}
		})
	}
}

// TestStopBeforeHello stops servers while they wait for the first bytes of a client.
func TestStopBeforeHello(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "lab"), time.Now()
	if err := credentials.Make(dir, []string{"127.0.0.1"}, nil, now.Add(-time.Hour), now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, tls := range []string{"", filepath.Join(dir, credentials.Server)} {
		s := serves(t, softtest.Name(t), func(o *ServerOptions) { o.TLS = tls })
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		testkit.Until(t, "a connection", func() bool { return s.counts.Snapshot().Connections == 1 })
		s.stop()
		var refused [numRefusals]uint64
		testkit.Until(t, "the end of the connection", func() bool {
			refused = s.counts.Snapshot().Refused
			return refused != [numRefusals]uint64{}
		})
		if refused[RefusedStopping] != 1 {
			t.Errorf("with --tls %q the reason is not stopping: %v", tls, refused)
		}
	}
	ctx, end := context.WithCancelCause(t.Context())
	end(admission.ErrCrowded)
	if err := new(ServerOptions).noHello(ctx, ctx.Err()); err.(jobless).why != RefusedSilent {
		t.Errorf("one of too many silent clients: %v", err)
	}
}

// TestPortDown takes the port and then the address of a server's device away, and gives them back. The server logs each
// change once, and its Snapshot says what is wrong.
func TestPortDown(t *testing.T) {
	s := serves(t, unsteadyPrefix+softtest.Name(t), nil)
	dev := verbs.ProviderOf(s.counts.device).(*unsteady)
	if down := s.counts.Snapshot().Down; down != nil {
		t.Error("at first", down)
	}
	for _, test := range []struct {
		event    verbs.EventType
		down     bool // of the port
		gone     bool // its addresses
		so       string
		snapshot string
	}{
		{verbs.EventPortErr, true, false, "no client can connect: port 1 of unsteady:soft0 is IBV_PORT_DOWN; try: ", "IBV_PORT_DOWN"},
		{verbs.EventPortActive, false, false, "clients can connect again", ""},
		{verbs.EventGIDChange, false, true, "no client can connect: unsteady:soft0: port 1 has no RoCE v2 GID", "no RoCE v2 GID"},
		{verbs.EventGIDChange, false, false, "clients can connect again", ""},
		{verbs.EventGIDChange, false, false, "", ""},
	} {
		dev.set(test.down, test.gone)
		dev.events <- verbs.AsyncEvent{Type: test.event, Port: 1}
		for {
			logged := testkit.Receive(t, s.log, test.event.String()+": "+test.so)
			so, _ := logged["so"].(string)
			if logged["event"] == "server.reachable" { // the server has looked by itself, just now
				so = logged["msg"].(string)
			}
			if test.so == "" && logged["event"] == "async.event" && logged["level"] == "INFO" ||
				test.so != "" && logged["level"] == "WARN" && strings.HasPrefix(so, test.so) {
				break
			}
		}
		if down := s.counts.Snapshot().Down; (down == nil) != (test.snapshot == "") || down != nil && !strings.Contains(down.Error(), test.snapshot) {
			t.Errorf("%v: %v, want %q", test.event, down, test.snapshot)
		}
	}
}

// unsteady is the device under test with a port that goes down, and addresses that go.
type unsteady struct {
	verbs.ProviderDevice
	under  *verbs.Device
	events chan verbs.AsyncEvent
	closed chan struct{}

	mu         sync.Mutex
	down, gone bool
}

func (u *unsteady) set(down, gone bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down, u.gone = down, gone
}

func (u *unsteady) QueryPort(number uint8) (verbs.PortAttr, error) {
	attr, err := u.ProviderDevice.QueryPort(number)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.down {
		attr.State = verbs.PortDown
	}
	return attr, err
}

func (u *unsteady) QueryGIDTable() ([]verbs.GIDEntry, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.gone {
		return nil, nil
	}
	return u.ProviderDevice.QueryGIDTable()
}

func (u *unsteady) NextEvent() (verbs.AsyncEvent, error) {
	select {
	case e := <-u.events:
		return e, nil
	case <-u.closed:
		return verbs.AsyncEvent{}, net.ErrClosed
	}
}

func (u *unsteady) Close() error {
	close(u.closed)
	return u.under.Close()
}

const unsteadyPrefix = "unsteady:"

type unsteadyProvider struct{}

func init() { verbs.Register(unsteadyProvider{}) }

func (unsteadyProvider) Name() string                         { return "unsteady" }
func (unsteadyProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (unsteadyProvider) Open(name string) (verbs.ProviderDevice, error) {
	name, ok := strings.CutPrefix(name, unsteadyPrefix)
	if !ok {
		return nil, syscall.ENODEV
	}
	under, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	return &unsteady{ProviderDevice: verbs.ProviderOf(under), under: under, events: make(chan verbs.AsyncEvent), closed: make(chan struct{})}, nil
}
