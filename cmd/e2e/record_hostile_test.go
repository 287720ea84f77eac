//go:build !rdma

// Tests of the TCP exchange, which is the same on every device.

package e2e

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

// sendJob runs the job "send" in this process over a connection. f replaces the last steps.
func sendJob(t *testing.T, conn *rc.Conn, first bool, f func(context.Context, *oob.Conn) error) error {
	conn.Farewell(f)
	mr, err := conn.AllocMR("to send", 64, verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	n := copy(mr.Bytes(), "hello")
	post := func() error {
		if err := conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mr.SGE(0, n)}}}); err != nil {
			return err
		}
		_, err := conn.WaitSend(testkit.Context(t))
		return err
	}
	if first {
		err = post()
	}
	if err == nil {
		_, err = conn.WaitRecv(testkit.Context(t))
	}
	if err == nil && !first {
		err = post()
	}
	if err != nil {
		return err
	}
	if err := conn.Finish(testkit.Context(t)); err != nil {
		return err
	}
	return conn.Close()
}

// recordingConfig is muteConfig for an end that supports records.
func recordingConfig(t *testing.T, dev *verbs.Device) rc.Config {
	cfg := muteConfig(t, dev)
	cfg.Params[trace.Param] = trace.ParamValue
	return cfg
}

// TestRecordFromAHostileServer runs servers that finish the job and then misbehave. The
// client's job must succeed, and its record must name the missing part.
func TestRecordFromAHostileServer(t *testing.T) {
	noLeak(t)
	flood := func(n oob.Note) func(context.Context, *oob.Conn) error {
		return func(ctx context.Context, tcp *oob.Conn) error {
			for tcp.SendNote(ctx, n) == nil { // until the client closes
			}
			return nil
		}
	}
	for name, test := range map[string]struct {
		farewell func(context.Context, *oob.Conn) error
		want     string
	}{
		"goes at once":    {func(context.Context, *oob.Conn) error { return nil }, "the connection"},
		"silent":          {func(ctx context.Context, tcp *oob.Conn) error { <-tcp.Done(); return nil }, "timed out"},
		"wrong notes":     {flood(oob.Note{Name: "gossip"}), "gossip"},
		"wrong times":     {flood(oob.Note{Name: "clock", Data: []byte("\x1b[2J")}), "are not valid"},
		"endless records": {flood(oob.Note{Name: "record", Data: make([]byte, 1000)}), "record"},
		"endless parts": {func(ctx context.Context, tcp *oob.Conn) error {
			for {
				if n, _ := tcp.RecvNote(ctx, ""); n.Name != "clock" { // it is "record", or empty
					return flood(oob.Note{Name: "record", Data: make([]byte, oob.MaxNoteData)})(ctx, tcp)
				}
				now := time.Now().UnixNano()
				tcp.SendNote(ctx, oob.Note{Name: "clock", Data: fmt.Appendf(nil, "%d %d", now, now)})
			}
		}, "more than"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want != "timed out" {
				hostileRecord(t, never, test.farewell, test.want)
				return
			}
			insist(t, test.want, func() string { return hostileRecord(t, "--timeout=2s", test.farewell, test.want) })
		})
	}
}

// hostileRecord runs a client that asks a server with this farewell for its record, and returns why the client has
// none of the server's part. If the job itself failed, which only a short --timeout excuses, hostileRecord returns
// its error.
func hostileRecord(t *testing.T, timeout string, farewell func(context.Context, *oob.Conn) error, want string) (why string) {
	t.Helper()
	dev := openDevice(t)
	listen, cfg := forServer(recordingConfig(t, dev))
	l, err := rc.Listen(testkit.Context(t), net.JoinHostPort(ipv4, "0"), listen)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		served <- func() error {
			in, err := l.Accept(testkit.Context(t))
			if err != nil {
				return err
			}
			if _, err := in.Hello(testkit.Context(t)); err != nil {
				return err
			}
			conn, err := in.Connect(testkit.Context(t), cfg)
			if err != nil {
				return err
			}
			defer conn.Close()
			return sendJob(t, conn, false, farewell)
		}()
	}()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	file := filepath.Join(t.TempDir(), "record")
	c := start(t, "rdma_client", "--json", timeout, "--record", file, ipv4, device, port)
	if c.wait() != 0 && timeout != never {
		return c.stderr.String()
	}
	c.succeeds()
	r := c.find("record.written", "level", "WARN")
	if r == nil || !strings.Contains(r.str("why"), want) {
		t.Errorf("logged %v, want %q", r, want)
	}
	rec := readRecord(t, file)
	if !rec.Done || rec.Server.Present || !strings.HasPrefix(rec.Server.Why, "it could not be fetched: ") || !strings.Contains(rec.Server.Why, want) || rec.Server.Program != "e2e" {
		t.Errorf("%+v", rec.Header)
	}
	if err := testkit.Receive(t, served, "end of the server"); err != nil {
		t.Errorf("the server: %v", err)
	}
	return rec.Server.Why
}

// TestRecordForAHostileClient runs clients that request the record and then misbehave. The
// server must report that and serve the next client.
func TestRecordForAHostileClient(t *testing.T) {
	noLeak(t)
	patient, hasty := serve(t), serve(t, "--timeout", "2s")
	for name, test := range map[string]struct {
		farewell func(context.Context, *oob.Conn) error
		want     string
	}{
		"goes at once": {func(context.Context, *oob.Conn) error { return nil }, "the connection"},
		"silent":       {func(ctx context.Context, tcp *oob.Conn) error { <-tcp.Done(); return nil }, "timed out"},
		"no question":  {func(ctx context.Context, tcp *oob.Conn) error { return tcp.SendNote(ctx, oob.Note{Name: "gossip"}) }, "gossip"},
		"asks forever": {func(ctx context.Context, tcp *oob.Conn) error {
			for tcp.SendNote(ctx, oob.Note{Name: "clock"}) == nil { // it reads none of the answers
			}
			return nil
		}, ""},
		"a large question": {func(ctx context.Context, tcp *oob.Conn) error {
			return tcp.SendNote(ctx, oob.Note{Name: "barrier", Data: make([]byte, oob.MaxNoteData)})
		}, "barrier"},
		"no note": {func(ctx context.Context, tcp *oob.Conn) error { tcp.Barrier(ctx, "done"); return nil }, "barrier"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.want == "timed out" {
				insist(t, test.want, func() string { return hasty.recordFails(t, test.farewell) })
				return
			}
			conn, err := rc.Dial(testkit.Context(t), patient.address(), recordingConfig(t, openDevice(t)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := sendJob(t, conn, true, test.farewell); err != nil {
				t.Errorf("the client: %v", err)
			}
			patient.event("record.failed", "level", "WARN", "error", test.want)
		})
	}
	patient.stillServes(t)
	for _, s := range []*server{patient, hasty} {
		s.held.expect(t, s)
		s.stops()
	}
	if failed := patient.all("client.failed"); len(failed) > 0 {
		t.Errorf("the jobs were done, and the server says %v", failed)
	}
}

// recordFails runs a client with this farewell, and returns why the server could not give the client the record. On
// a server with a short --timeout the job itself may fail if the host stops; then recordFails returns why.
func (s *server) recordFails(t *testing.T, farewell func(context.Context, *oob.Conn) error) (why string) {
	t.Helper()
	before, records := s.failures(), len(s.all("record.failed"))
	conn, err := rc.Dial(testkit.Context(t), s.address(), recordingConfig(t, openDevice(t)))
	if err != nil {
		return err.Error()
	}
	defer conn.Close()
	if err := sendJob(t, conn, true, farewell); err != nil {
		return err.Error()
	}
	s.await("failure of a record or of a job", func() bool {
		if all := s.all("record.failed"); len(all) > records {
			why = all[records].str("error")
		} else if all := s.all("client.failed"); len(all) > before {
			why = "the job: " + all[before].str("error")
		}
		return why != ""
	})
	return why
}
