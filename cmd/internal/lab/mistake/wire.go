// The packets of a run on soft0, as lines of text.

package mistake

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rawverbs/rawverbs/internal/sync/ctxwatch"
	"github.com/rawverbs/rawverbs/softroce/dissect"
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

// acknowledge is the opcode of ACKs and NAKs.
const acknowledge = "Acknowledge"

// packet takes one packet of the capture.
func (w *wire) packet(at time.Time, ip []byte) error {
	d, err := dissect.Parse(ip)
	if err != nil {
		return nil // not a packet of the run
	}
	p := packet{Opcode: spelled(d.Opcode), PSN: d.PSN, Bytes: d.Payload, Carries: w.carries(&d)}

	w.mu.Lock()
	defer w.mu.Unlock()
	p.From, p.To = w.name(d.Src), w.name(d.Dst)
	if p.From == "client" && !d.Response {
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

func (w *wire) name(addr netip.Addr) string { return cmp.Or(w.names[addr], "nobody") }

// spelled is an opcode of RC as people write it: RC_RDMA_WRITE_FIRST is "RDMA WRITE First".
func spelled(opcode string) string {
	words := strings.Split(strings.TrimPrefix(opcode, "RC_"), "_")
	for i, word := range words {
		switch word {
		case "FIRST", "MIDDLE", "LAST", "ONLY", "REQUEST", "RESPONSE", "ACKNOWLEDGE":
			words[i] = word[:1] + strings.ToLower(word[1:])
		}
	}
	return strings.Join(words, " ")
}

// carries describes the header after the BTH.
func (w *wire) carries(d *dissect.Packet) string {
	values, meaning := map[string]uint64{}, ""
	for _, f := range d.Fields() {
		values[f.Header+" "+f.Name] = f.Value
		if f.Name == "Syndrome" {
			meaning = f.Meaning
		}
	}
	if msn, is := values["AETH MSN"]; is {
		return fmt.Sprintf("%s, MSN %d", syndrome(values["AETH Syndrome"], meaning), msn)
	}
	if length, is := values["RETH DMALen"]; is {
		return fmt.Sprintf("RETH %s, %d bytes", w.place(values["RETH VA"], values["RETH R_Key"]), length)
	}
	if rkey, is := values["AtomicETH R_Key"]; is {
		return "AtomicETH " + w.place(values["AtomicETH VA"], rkey)
	}
	return ""
}

// place describes the address and the rkey of a request, seen from the server's region.
func (w *wire) place(addr, rkey uint64) string {
	text := "right rkey"
	if uint32(rkey) != w.b.server.mr.RKey() {
		text = "wrong rkey"
	}
	if off := int64(addr - w.b.server.mr.Addr()); off >= 0 && off < regionSize {
		text = fmt.Sprintf("byte %d, %s", off, text)
	}
	return text
}

// syndrome is the first byte of an AETH, and what it means.
func syndrome(value uint64, meaning string) string {
	if _, wait, rnr := strings.Cut(meaning, "; "); rnr {
		return fmt.Sprintf("RNR NAK %#02x, %s", value, wait)
	}
	if why, nak := strings.CutPrefix(meaning, "NAK "); nak {
		return fmt.Sprintf("NAK %#02x, %s", value, why)
	}
	return meaning
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
	return slices.Clone(w.packets)
}
