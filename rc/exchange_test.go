package rc

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// tuple is a queue pair in the test's own protocol.
type tuple struct {
	QPN, PSN, QKey uint32
	GID            [16]byte
}

// swap is an Exchange of that protocol: both ends write and read tuples, then one byte.
func swap(ctx context.Context, c *Conn, up func([]oob.Endpoint) error) error {
	out := []byte{}
	for _, e := range c.LocalEndpoints() {
		out, _ = binary.Append(out, binary.BigEndian, tuple{e.QPN, e.PSN, e.QKey, e.GID})
	}
	if err := c.TCP().WriteAll(ctx, "tuples", out); err != nil {
		return err
	}
	in := make([]byte, len(out))
	if _, err := c.TCP().ReadFull(ctx, "tuples", in); err != nil {
		return err
	}
	peers := c.LocalEndpoints()
	size := binary.Size(tuple{})
	for i := range peers {
		var t tuple
		if _, err := binary.Decode(in[i*size:], binary.BigEndian, &t); err != nil {
			return err
		}
		peers[i].QPN, peers[i].PSN, peers[i].QKey, peers[i].GID = t.QPN, t.PSN, t.QKey, t.GID
	}
	if err := up(peers); err != nil {
		return err
	}
	if err := c.TCP().WriteAll(ctx, "ready", []byte{1}); err != nil {
		return err
	}
	_, err := c.TCP().ReadFull(ctx, "ready", in[:1])
	return err
}

// exchangePair connects two ends by an Exchange of each.
func exchangePair(t *testing.T, client, server Config) (c, s *Conn, cerr, serr error) {
	t.Helper()
	dev := softtest.Open(t)
	client.Device, server.Device = dev, dev
	ctx := testkit.Context(t)
	l, err := Listen(ctx, "127.0.0.1:0", ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		in, err := l.Accept(ctx)
		if err != nil {
			serr = err
			return
		}
		s, serr = in.Connect(ctx, server)
	}()
	c, cerr = Dial(ctx, l.Addr().String(), client)
	<-served
	for _, conn := range []*Conn{c, s} {
		if conn != nil {
			t.Cleanup(func() {
				if err := conn.Finish(t.Context()); err != nil {
					t.Errorf("Finish: %v", err)
				}
				if err := conn.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		}
	}
	return c, s, cerr, serr
}

// TestAnExchangeOfAnotherFormat sends a message each way over each transport, and
// with a shared receive queue.
func TestAnExchangeOfAnotherFormat(t *testing.T) {
	psn := uint32(0xfffffe)
	for name, cfg := range map[string]Config{
		"RC":            {},
		"RC, PSN given": {PSN: &psn, MaxReads: 1, MTU: 1024},
		"RC, several":   {QPs: 3},
		"RC, SRQ":       {QPs: 3, SRQ: &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}},
		"RC, one CQ":    {QPs: 3, OneCQ: true},
		"SRQ, one CQ":   {QPs: 3, OneCQ: true, SRQ: &verbs.SRQInit{MaxWR: 8, MaxSGE: 1}},
		"RC, spinning":  {Spin: time.Millisecond},
		"UC":            {Type: verbs.UC},
		"UD":            {Type: verbs.UD, QKey: 0x11111111},
	} {
		t.Run(name, func(t *testing.T) {
			const header = 40 // UD: the GRH
			ends := [2]Config{cfg, cfg}
			var mrs [2]*verbs.MR
			for i := range ends {
				ends[i].Exchange = swap
				ends[i].Prepare = func(c *Conn) (err error) {
					if mrs[i], err = c.AllocMR("test", 8*slot, verbs.AccessLocalWrite); err != nil {
						return err
					}
					wr := func(at int) []verbs.RecvWR {
						return []verbs.RecvWR{{ID: uint64(at), SGL: []verbs.SGE{mrs[i].SGE(at*slot, slot)}}}
					}
					for at, qp := range c.QPs() {
						if c.QP().SRQ() != nil {
							err = c.QP().SRQ().PostRecv(wr(at))
						} else {
							err = qp.PostRecv(wr(at))
						}
						if err != nil {
							return err
						}
					}
					return nil
				}
			}
			c, s, cerr, serr := exchangePair(t, ends[0], ends[1])
			if cerr != nil || serr != nil {
				t.Fatalf("client: %v; server: %v", cerr, serr)
			}
			if cfg.PSN != nil {
				attr, err := c.QP().Query(qpstate.MaskRQPSN | qpstate.MaskMaxRdAtomic | qpstate.MaskPathMTU)
				if err != nil || attr.RQPSN != psn || attr.MaxRdAtomic != 1 || attr.PathMTU.Bytes() != 1024 {
					t.Errorf("rq_psn %#x, max_rd_atomic %d, MTU %d, %v", attr.RQPSN, attr.MaxRdAtomic, attr.PathMTU.Bytes(), err)
				}
			}
			for from, end := range []*Conn{c, s} {
				to := [2]*Conn{s, c}[from]
				for i, qp := range end.QPs() {
					text := mrs[from].Bytes()[7*slot:]
					n := copy(text, fmt.Sprintf("%s %d from %d", name, i, from))
					wr := verbs.SendWR{Opcode: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{mrs[from].SGE(7*slot, n)}}
					if cfg.Type == verbs.UD {
						wr.AH, wr.RemoteQPN, wr.RemoteQKey = end.AH(i), end.PeerEndpoints()[i].QPN, end.PeerEndpoints()[i].QKey
					} else if end.AH(i) != nil {
						t.Error("a connected queue pair has an address handle")
					}
					if err := qp.PostSend([]verbs.SendWR{wr}); err != nil {
						t.Fatal(err)
					}
					if _, err := end.WaitSend(t.Context()); err != nil {
						t.Fatal(err)
					}
					wc, err := to.WaitRecv(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if wc.QPN != to.QPs()[i].QPN() {
						t.Errorf("message %d came to QP %#x", i, wc.QPN)
					}
					got := mrs[1-from].Bytes()[int(wc.ID)*slot:][:wc.ByteLen]
					if cfg.Type == verbs.UD {
						got = got[header:]
					}
					if string(got) != string(text[:n]) {
						t.Errorf("got %q, want %q", got, text[:n])
					}
				}
			}
			if err := c.TCP().Barrier(t.Context(), "x"); err == nil {
				t.Error("a barrier of the native protocol, on a connection of another")
			}
		})
	}
}

func TestAnExchangeThatFails(t *testing.T) {
	quit := func(context.Context, *Conn, func([]oob.Endpoint) error) error { return fmt.Errorf("enough") }
	for name, test := range map[string]struct {
		client         Exchange
		wantC, wantSrv string
	}{
		"the peer leaves": {quit, "exchange: enough", "the connection before it sent anything"},
		"too few":         {func(ctx context.Context, c *Conn, up func([]oob.Endpoint) error) error { return up(nil) }, "as many at both ends", "the connection before it sent anything"},
		"no GID": {func(ctx context.Context, c *Conn, up func([]oob.Endpoint) error) error {
			return up(make([]oob.Endpoint, 1))
		}, "-g 1", "the connection before it sent anything"},
		"an MTU that is no MTU": {func(ctx context.Context, c *Conn, up func([]oob.Endpoint) error) error {
			p := c.LocalEndpoints()
			p[0].MTU = 77
			return up(p)
		}, "77", "the connection before it sent anything"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, cerr, serr := exchangePair(t, Config{Exchange: test.client}, Config{Exchange: swap})
			for _, e := range []struct {
				who  string
				err  error
				want string
			}{{"client", cerr, test.wantC}, {"server", serr, test.wantSrv}} {
				if e.err == nil || !strings.Contains(e.err.Error(), e.want) {
					t.Errorf("%s: %v; want %q", e.who, e.err, e.want)
				}
			}
		})
	}
}
