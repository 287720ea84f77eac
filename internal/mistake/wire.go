// The packets of a run on soft0, as lines of text.

package mistake

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/internal/ctxwatch"
	"github.com/rawverbs/rawverbs/qpstate"
)

// packet is one packet at the client's device.
type packet struct {
	Seconds float64 `json:"seconds"` // since the first packet
	From    string  `json:"from"`
	To      string  `json:"to"`
	Opcode  string  `json:"opcode"`
	PSN     uint32  `json:"psn"`
	Bytes   int     `json:"bytes"`             // of payload
	Carries string  `json:"carries,omitempty"` // the AETH or the RETH
	Again   bool    `json:"again,omitempty"`   // the requester sent this PSN before
}

// wire collects the packets of a run.
type wire struct {
	names map[netip.Addr]string // of the ends
	b     *bench

	mu        sync.Mutex
	packets   []packet
	began     time.Time
	requested map[uint32]bool // PSNs of requests
	changed   chan struct{}   // gets a value after a packet, unless it has one
}

func newWire(b *bench) *wire {
	return &wire{b: b, requested: map[uint32]bool{}, changed: make(chan struct{}, 1), names: map[netip.Addr]string{
		b.client.gid.GID.Addr(): "client", b.server.gid.GID.Addr(): "server",
	}}
}

// Lengths of headers in bytes.
const (
	ipLen, udpLen, bthLen, icrcLen = 20, 8, 12, 4
	rethLen, atomicLen, aethLen    = 16, 28, 4
)

// opcode is an opcode of RC, with the header that follows the BTH.
type opcode struct {
	name   string
	header int // rethLen, atomicLen, aethLen or 0
	more   int // bytes of headers after that
	answer bool
}

// acknowledge is the opcode of ACKs and NAKs.
const acknowledge = "Acknowledge"

// opcodes are those that the mistakes use.
var opcodes = map[byte]opcode{
	0x00: {name: "SEND First"},
	0x01: {name: "SEND Middle"},
	0x02: {name: "SEND Last"},
	0x04: {name: "SEND Only"},
	0x06: {name: "RDMA WRITE First", header: rethLen},
	0x07: {name: "RDMA WRITE Middle"},
	0x08: {name: "RDMA WRITE Last"},
	0x0a: {name: "RDMA WRITE Only", header: rethLen},
	0x0c: {name: "RDMA READ Request", header: rethLen},
	0x0d: {name: "RDMA READ Response First", header: aethLen, answer: true},
	0x0e: {name: "RDMA READ Response Middle", answer: true},
	0x0f: {name: "RDMA READ Response Last", header: aethLen, answer: true},
	0x10: {name: "RDMA READ Response Only", header: aethLen, answer: true},
	0x11: {name: acknowledge, header: aethLen, answer: true},
	0x12: {name: "ATOMIC Acknowledge", header: aethLen, more: 8, answer: true},
	0x14: {name: "FETCH ADD", header: atomicLen},
}

// packet takes one IPv4 packet of the capture.
func (w *wire) packet(at time.Time, ip []byte) error {
	if len(ip) < ipLen+udpLen+bthLen+icrcLen {
		return nil
	}
	var from, to [4]byte
	copy(from[:], ip[12:])
	copy(to[:], ip[16:])
	bth := ip[ipLen+udpLen:]
	o, known := opcodes[bth[0]]
	if !known {
		o.name = fmt.Sprintf("opcode %#02x", bth[0])
	}
	p := packet{Opcode: o.name, PSN: binary.BigEndian.Uint32(bth[8:]) & 0xffffff}
	p.Bytes = len(bth) - bthLen - o.header - o.more - icrcLen - int(bth[1]>>4&3)
	p.Carries = w.carries(o, bth[bthLen:])

	w.mu.Lock()
	defer w.mu.Unlock()
	p.From, p.To = w.name(from), w.name(to)
	if p.From == "client" && !o.answer {
		p.Again = w.requested[p.PSN]
		w.requested[p.PSN] = true
	}
	if len(w.packets) == 0 {
		w.began = at
	}
	p.Seconds = at.Sub(w.began).Seconds()
	w.packets = append(w.packets, p)
	select {
	case w.changed <- struct{}{}:
	default:
	}
	return nil
}

func (w *wire) name(ip [4]byte) string {
	if name, ok := w.names[netip.AddrFrom4(ip)]; ok {
		return name
	}
	return "nobody"
}

// carries describes the header after the BTH.
func (w *wire) carries(o opcode, header []byte) string {
	if len(header) < o.header {
		return ""
	}
	switch o.header {
	case aethLen:
		return fmt.Sprintf("%s, MSN %d", syndrome(header[0]), binary.BigEndian.Uint32(header)&0xffffff)
	case rethLen:
		return fmt.Sprintf("RETH %s, %d bytes", w.place(header), binary.BigEndian.Uint32(header[12:]))
	case atomicLen:
		return "AtomicETH " + w.place(header)
	}
	return ""
}

// place describes the address and the rkey of a request, seen from the server's region.
func (w *wire) place(header []byte) string {
	addr, rkey := binary.BigEndian.Uint64(header), binary.BigEndian.Uint32(header[8:])
	text := "right rkey"
	if rkey != w.b.server.mr.RKey() {
		text = "wrong rkey"
	}
	if off := int64(addr - w.b.server.mr.Addr()); off >= 0 && off < regionSize {
		text = fmt.Sprintf("byte %d, %s", off, text)
	}
	return text
}

// syndrome is the first byte of an AETH in words.
func syndrome(s byte) string {
	names := map[byte]string{0x60: "PSN sequence error", 0x61: "invalid request", 0x62: "remote access error", 0x63: "remote operational error"}
	switch {
	case s < 0x20:
		return "ACK"
	case s < 0x40:
		return fmt.Sprintf("RNR NAK %#02x, wait %v", s, qpstate.RNRTimer(s&0x1f))
	}
	return fmt.Sprintf("NAK %#02x, %s", s, names[s])
}

// seen waits for a packet whose header says text. It does not wait on a device whose packets
// this process does not see.
func (b *bench) seen(text string) {
	if b.wire == nil {
		return
	}
	timeout := time.After(b.patience)
	for {
		for _, p := range b.wire.sofar() {
			if strings.HasPrefix(p.Carries, text) {
				return
			}
		}
		select {
		case <-b.wire.changed:
		case <-timeout:
			return // the promise is broken, which the report says
		case <-b.ctx.Done():
			must(ctxwatch.Err(b.ctx))
		}
	}
}

func (w *wire) sofar() []packet {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]packet(nil), w.packets...)
}
