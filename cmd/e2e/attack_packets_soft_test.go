//go:build !rdma

// Malformed and forged packets while honest clients work.

package e2e

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/verbs"
)

// TestAttackByPackets sends a server malformed packets, and forged ones of another host, which knows all
// that only the two ends should know. Honest clients work meanwhile: no byte is lost or changed, the
// server drops the packets and counts why, and its memory stays.
func TestAttackByPackets(t *testing.T) {
	noLeak(t)
	s, dev := serve(t, "--metrics", "127.0.0.1:0"), openDevice(t)
	metrics := "http://" + s.event("metrics.served").str("address") + "/metrics"
	victim := dialRegion(t, s, dev)
	region, _ := victim.PeerRegion("buffer")
	mine, server := victim.LocalEndpoints()[0], victim.PeerEndpoints()[0]
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom16(server.GID).Unmap(), 4791))
	stranger, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(hostile), Port: 4791}, to)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	f := forger{from: netip.MustParseAddr(hostile), to: to.AddrPort().Addr(), qpn: server.QPN, psn: mine.PSN}
	f.reth = binary.BigEndian.AppendUint64(nil, region.Addr)
	f.reth = binary.BigEndian.AppendUint32(f.reth, region.RKey)

	before := status(t, s.process, "VmRSS")
	var over atomic.Bool
	var flood sync.WaitGroup
	stop := func() { over.Store(true); flood.Wait() }
	defer stop()
	var sent atomic.Int64
	flood.Go(func() {
		for !over.Load() {
			_, _ = stranger.Write(f.next()) // an ICMP error of a server that ends is none of the test
			if sent.Add(1)%100 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	var works sync.WaitGroup
	for _, flags := range [][]string{{"--op", "write"}, {"--op", "read"}, {"--op", "send"}} {
		c := s.client(t, append([]string{"--job", "bulk", "--size", "16M"}, flags...)...)
		works.Go(func() { <-c.over })
		defer c.succeeds() // it has compared every byte
	}
	for i := 0; i < 500 || sent.Load() < 20_000; i++ {
		text := fmt.Sprintf("%08d", i)
		copy(victim.mr.Bytes(), text)
		for _, op := range []verbs.Opcode{verbs.OpRDMAWrite, verbs.OpRDMARead} {
			if err := victim.try(t, region, op); err != nil {
				t.Fatal(err)
			}
			if got := string(victim.mr.Bytes()[:8]); got != text {
				t.Fatalf("the region begins with %q, want %q", got, text)
			}
			clear(victim.mr.Bytes()[:8])
		}
	}
	works.Wait()
	stop()
	if rss := status(t, s.process, "VmRSS"); rss > before+128<<20 {
		t.Errorf("the server's memory grew from %d to %d MiB", before>>20, rss>>20)
	}
	_, text := get(t, metrics)
	dropped := 0.0
	var why []string
	for _, reason := range []string{"icrc", "length", "no_qp", "mismatch", "malformed"} {
		n := valueOf(t, text, fmt.Sprintf(`rawverbs_drops_total{reason=%q}`, reason))
		if n <= 0 {
			t.Errorf("no packet was dropped for %q", reason)
		}
		dropped += n
		why = append(why, fmt.Sprintf("%s %.0f", reason, n))
	}
	t.Logf("%d packets; dropped %.0f: %s", sent.Load(), dropped, strings.Join(why, ", "))
	victim.Close()
	s.stillServes(t)
}

// forger makes packets of a stranger, in turn.
type forger struct {
	from, to netip.Addr
	qpn, psn uint32
	reth     []byte // address and rkey
	n        int
}

func (f *forger) next() []byte {
	f.n++
	packet := func(opcode byte, qpn, psn uint32, rest ...byte) frame {
		return forge(f.from, f.to, 4791, opcode, qpn, psn, rest)
	}
	const writeOnly, readRequest = 0x0a, 0x0c
	reth := func(length uint32) []byte {
		return binary.BigEndian.AppendUint32(f.reth[:len(f.reth):len(f.reth)], length)
	}
	var p frame
	switch f.n % 8 {
	case 0: // a WRITE that would be right if its sender were
		p = packet(writeOnly, f.qpn, f.psn+uint32(rand.IntN(4000)), append(reth(8), "forged!!"...)...)
	case 1: // an acknowledgement of more than was sent
		p = packet(ack, f.qpn, rand.Uint32()&0xffffff, 0x1f, 0xff, 0xff, 0xff)
	case 2: // READ of 2 GiB
		p = packet(readRequest, f.qpn, f.psn+uint32(rand.IntN(4000)), reth(1<<31)...)
	case 3: // any opcode to any queue pair
		p = packet(byte(rand.IntN(256)), rand.Uint32()&0xffffff, rand.Uint32(), make([]byte, rand.IntN(64)&^3)...)
	case 4: // any opcode to the queue pair, with any bytes
		p = packet(byte(rand.IntN(256)), f.qpn, f.psn, f.reth[:rand.IntN(len(f.reth)+1)&^3]...)
	case 5: // a wrong checksum
		p = packet(writeOnly, f.qpn, f.psn, append(reth(8), "forged!!"...)...)
		p[len(p)-1] ^= 1
	case 6: // shorter than its headers
		p = packet(writeOnly, f.qpn, f.psn)
		p = p[:ipHeader+udpHeader+rand.IntN(bthHeader)]
	default: // noise
		p = packet(0, 0, 0, make([]byte, rand.IntN(200))...)
		for i := ipHeader + udpHeader; i < len(p); i++ {
			p[i] = byte(rand.Uint32())
		}
	}
	return p[ipHeader+udpHeader:]
}
