// Benchmarks against TCP and plain UDP in the same run, and tests that sending and
// receiving do not allocate.

package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
)

// Packets of the streams: path MTU 4096, as many per burst as fit.
const (
	streamPayload = 4096
	streamPacket  = 12 + streamPayload + 4
	streamBurst   = MaxBurst / streamPacket
	// streamWindow is the maximum number of unacknowledged packets. Like a transport, it
	// prevents drops from a full socket buffer.
	streamWindow = 8 * streamBurst
)

// streamer sends payload from source, one burst at a time, within a window.
type streamer struct {
	link        *Socket
	to          netip.Addr
	e           Egress
	buf         []byte
	source      []byte
	sent, acked int // packets sent, and acknowledged
	total       int
}

func newStreamer(l *Socket, to netip.Addr) *streamer {
	return &streamer{link: l, to: to, buf: make([]byte, streamWindow*streamPacket), source: make([]byte, 1<<20)}
}

// allowed returns the number of packets that may be sent now: a whole burst or 0.
func (s *streamer) allowed() int {
	n := min(streamBurst, s.total-s.sent)
	if s.sent+n > s.acked+streamWindow {
		return 0
	}
	return n
}

// push sends as many bursts as the window allows.
func (s *streamer) push() error {
	for s.allowed() > 0 {
		used := 0
		for s.allowed() > 0 && len(s.buf)-used >= streamBurst*streamPacket {
			start := used
			for range s.allowed() {
				p, err := packet.Build(s.buf[used:], packet.RCWriteMiddle, streamPayload)
				if err != nil {
					return err
				}
				p.BTH().SetPSN(packet.NewPSN(uint32(s.sent)))
				copy(p.Payload(), s.source[s.sent*streamPayload%len(s.source):])
				used += streamPacket
				s.sent++
			}
			s.e.Add(Destination{Addr: s.to}, s.buf[start:used], streamPacket)
		}
		if err := s.link.Send(&s.e); err != nil {
			return err
		}
	}
	return nil
}

// run sends total packets and returns when all are acknowledged.
func (s *streamer) run(total int) error {
	s.total, s.sent, s.acked = total, 0, 0
	in := NewIngress()
	if err := s.push(); err != nil {
		return err
	}
	for s.acked < s.total {
		if err := s.link.Receive(in); err != nil {
			return err
		}
		for _, p := range in.Packets {
			s.acked = int(binary.BigEndian.Uint32(p.Data[12:]))
		}
		if err := s.push(); err != nil {
			return err
		}
	}
	return nil
}

// absorb receives packets, copies their payload and acknowledges each batch. It returns
// when the link is closed.
func absorb(l *Socket, to netip.Addr) error {
	in, out := NewIngress(), new(Egress)
	memory, ack := make([]byte, 1<<20), make([]byte, 64)
	got := 0
	for {
		if err := l.Receive(in); err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		for i := range in.Packets {
			p, err := packet.Parse(in.Packets[i].Data)
			if err != nil {
				return err
			}
			psn := int(p.BTH().PSN())
			if psn == 0 {
				got = 0
			}
			if psn != got&0xffffff {
				return fmt.Errorf("PSN %d, not %d", psn, got)
			}
			got++
			copy(memory[psn*streamPayload%len(memory):], p.Payload())
		}
		p, err := packet.Build(ack, packet.RCAcknowledge, 0)
		if err != nil {
			return err
		}
		binary.BigEndian.PutUint32(p.Bytes()[12:], uint32(got))
		out.Add(Destination{Addr: to}, p.Bytes(), len(p.Bytes()))
		if err := l.Send(out); err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
	}
}

// BenchmarkStream moves 1 MiB per operation: copied into packets, sent, received,
// checked, copied out and acknowledged. For comparison it moves 1 MiB through TCP, 64 KiB
// per write.
func BenchmarkStream(b *testing.B) {
	const message = 1 << 20
	for _, mode := range modes {
		b.Run(mode.String(), func(b *testing.B) {
			x, y := pair(b, false, Config{Limit: mode})
			failed := make(chan error, 1)
			go func() { failed <- absorb(y, x.Addr()) }()
			s := newStreamer(x, y.Addr())
			b.SetBytes(message)
			b.ReportAllocs()
			b.ResetTimer()
			if err := s.run(b.N * message / streamPayload); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			y.Close()
			if err := <-failed; err != nil {
				b.Fatal(err)
			}
			if c := y.Counters(); slices.Max(c[DropTruncated:Matched]) > 0 {
				b.Errorf("dropped: %+v", c)
			}
		})
	}
	b.Run("tcp", func(b *testing.B) { benchTCP(b, message) })
}

func benchTCP(b *testing.B, message int) {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		buf := make([]byte, message)
		for {
			if _, err := c.Read(buf); err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				done <- err
				return
			}
		}
	}()
	c, err := net.DialTCP("tcp4", nil, l.Addr().(*net.TCPAddr))
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	b.SetBytes(int64(message))
	b.ResetTimer()
	for range b.N {
		for range message / len(buf) {
			if _, err := c.Write(buf); err != nil {
				b.Fatal(err)
			}
		}
	}
	c.Close()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// ponger sends each received packet back.
func ponger(l *Socket, to netip.Addr) {
	in, e := NewIngress(), new(Egress)
	for l.Receive(in) == nil {
		for i := range in.Packets {
			p := in.Packets[i].Data
			e.Add(Destination{Addr: to}, p, len(p))
		}
		if l.Send(e) != nil {
			return
		}
	}
}

// BenchmarkPingPong measures one round trip of an 8-byte SEND, or of as many bytes through
// package net.
func BenchmarkPingPong(b *testing.B) {
	for _, mode := range modes {
		b.Run(mode.String(), func(b *testing.B) {
			x, y := pair(b, false, Config{Limit: mode})
			go ponger(y, x.Addr())
			in, e := NewIngress(), new(Egress)
			buf := make([]byte, packet.Len(packet.RCSendOnly, 8))
			p, err := packet.Build(buf, packet.RCSendOnly, 8)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				e.Add(Destination{Addr: y.Addr()}, p.Bytes(), len(buf))
				if err := x.Send(e); err != nil {
					b.Fatal(err)
				}
				if err := x.Receive(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("net.UDPConn", benchUDP)
}

func benchUDP(b *testing.B) {
	open := func() (*net.UDPConn, netip.AddrPort) {
		c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return c, c.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	x, _ := open()
	y, to := open()
	go func() {
		buf := make([]byte, 64)
		for {
			n, from, err := y.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			if _, err := y.WriteToUDPAddrPort(buf[:n], from); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, packet.Len(packet.RCSendOnly, 8))
	for b.Loop() {
		if _, err := x.WriteToUDPAddrPort(buf, to); err != nil {
			b.Fatal(err)
		}
		if _, _, err := x.ReadFromUDPAddrPort(buf); err != nil {
			b.Fatal(err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	for _, mode := range modes {
		for _, v6 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v/v6=%v", mode, v6), func(t *testing.T) { noAllocations(t, mode, v6) })
		}
	}
}

func noAllocations(t *testing.T, mode Mode, v6 bool) {
	x, y := pair(t, v6, Config{Limit: mode})
	in, e := NewIngress(), new(Egress)
	const packets = 5
	size := packet.Len(packet.RCSendOnly, 1024)
	data := make([]byte, packets*size)
	for i := range packets {
		if _, err := packet.Build(data[i*size:], packet.RCSendOnly, 1024); err != nil {
			t.Fatal(err)
		}
	}
	n := testkit.Allocations(t, 200, func() {
		e.Add(Destination{Addr: y.Addr(), TOS: 0x20, TTL: 9}, data, size)
		if err := x.Send(e); err != nil {
			t.Fatal(err)
		}
		for got := 0; got < packets; got += len(in.Packets) {
			if err := y.Receive(in); err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	for _, p := range in.Packets {
		if p.TOS != 0x20 || p.TTL != 9 {
			t.Errorf("TOS %#x, TTL %d", p.TOS, p.TTL)
		}
	}
}
