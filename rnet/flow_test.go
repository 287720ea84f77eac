package rnet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rawverbs/rawverbs/oob"
)

func TestImmediate(t *testing.T) {
	for _, test := range []struct {
		imm  uint32
		want arrival
	}{
		{0x0000_0001, arrival{length: 1}},
		{0x001f_ffff, arrival{length: 1<<21 - 1}},
		{0x7fe0_0000, arrival{units: 1023}},
		{0x4004_0000, arrival{units: 512, length: 256 << 10}},
		{0x8000_0000, arrival{control: true}},
		{0xc000_0000, arrival{control: true, fin: true}},
		{0xa000_0000, arrival{control: true, rst: true}},
		{0x8002_0040, arrival{control: true, messages: 128, units: 64}},
		{0xe3ff_ffff, arrival{control: true, fin: true, rst: true, messages: 65535, units: 1023}},
	} {
		if got, err := parse(test.imm); got != test.want || err != nil {
			t.Errorf("%#08x: %+v, %v; want %+v", test.imm, got, err, test.want)
		}
		if got := test.want.imm(); got != test.imm {
			t.Errorf("%+v: %#08x, want %#08x", test.want, got, test.imm)
		}
	}
	for bit := 26; bit <= 28; bit++ {
		if _, err := parse(immControl | 1<<bit); err == nil {
			t.Errorf("bit %d of a control message must be 0", bit)
		}
	}
}

func TestAgree(t *testing.T) {
	params := func(changes ...string) oob.Hello {
		p := helloParams(defaultRing)
		for i := 0; i < len(changes); i += 2 {
			p[changes[i]] = changes[i+1]
		}
		return oob.Hello{Job: jobName, Params: p}
	}
	for _, test := range []struct {
		hello oob.Hello
		want  terms // zero: refused
	}{
		{params(), terms{defaultRing, receives}},
		{params(paramRing, "65536"), terms{minRing, receives}},
		{params(paramRing, "16777216", paramReceives, "1024"), terms{defaultRing, 1024}},
		{params(paramVersion, "2"), terms{}},
		{oob.Hello{Job: "bulk"}, terms{}},
		{params(paramRing, "65537"), terms{}},
		{params(paramRing, "32768"), terms{}},
		{params(paramRing, "33554432"), terms{}},
		{params(paramRing, "-1"), terms{}},
		{params(paramRing, "18446744073709551616"), terms{}},
		{params(paramRing, ""), terms{}},
		{params(paramReceives, "255"), terms{}},
		{params(paramReceives, "100000"), terms{}},
	} {
		got, err := agree(defaultRing, test.hello)
		if refused := test.want == (terms{}); refused != (err != nil) || !refused && got != test.want {
			t.Errorf("%v: %+v, %v; want %+v", test.hello.Params, got, err, test.want)
		}
	}
}

// TestAccounts lets two ends send, read and report at random. No account may ever be refused, and in
// the end everything must have arrived: nothing may wait for a report that does not come.
func TestAccounts(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var ends [2]flow
		for i := range ends {
			ends[i].terms = terms{minRing << r.IntN(6), receives}
			ends[i].ring = ends[0].ring
			ends[i].packet = []uint64{0, 256, 1024, 4096}[r.IntN(4)]
			ends[i].run = min(65507/(ends[i].packet+16), 64)
		}
		var wires [2][]arrival // to the end with that index
		const total = 3 << 20
		step := func(i int, mayWrite bool) (progress bool) {
			f, send := &ends[i], func(m arrival) { wires[1-i] = append(wires[1-i], m) }
			if _, n := f.space(); mayWrite && n > 0 && f.written < total && r.IntN(2) == 0 {
				f.written += min(1+r.Uint64N(n), total-f.written)
				progress = true
			}
			if len(wires[i]) > 0 {
				m := wires[i][0]
				wires[i] = wires[i][1:]
				if err := f.arrive(m, m.length); err != nil {
					t.Fatalf("seed %d, %+v: %v", seed, m, err)
				}
				progress = true
			}
			if _, n := f.data(); n > 0 && r.IntN(3) == 0 {
				f.consumed += 1 + r.Uint64N(n)
				progress = true
			}
			for {
				_, m := f.next(len(wires[1-i]) >= few, false)
				if m.length == 0 {
					break
				}
				send(m)
				progress = true
			}
			if f.due() {
				send(f.report())
			}
			return progress
		}
		for idle := 0; idle < 200; idle++ {
			if step(r.IntN(2), true) {
				idle = 0
			}
		}
		for i := range ends {
			if ends[i].written != total || ends[1-i].consumed != total {
				t.Fatalf("seed %d: end %d wrote %d, the other has read %d, want %d: %+v", seed, i, ends[i].written, ends[1-i].consumed, total, ends)
			}
		}
	}
}

// TestArriveRefuses has each count that a hostile peer may forge.
func TestArriveRefuses(t *testing.T) {
	const ring = minRing
	fresh := func() flow {
		f := flow{terms: terms{ring, receives}, written: 1000, posted: 900, unposted: 3}
		f.arrived, f.consumed = ring-100, ring/2
		return f
	}
	for name, test := range map[string]struct {
		m     arrival
		bytes uint64
		fin   bool
	}{
		"more freed than posted":        {m: arrival{control: true, units: 8}},
		"more freed than posted, data":  {m: arrival{units: 1023, length: 1}, bytes: 1},
		"more receives than messages":   {m: arrival{control: true, messages: 4}},
		"a length that was not written": {m: arrival{length: 10}, bytes: 9},
		"no bytes":                      {m: arrival{}},
		"a control message with bytes":  {m: arrival{control: true}, bytes: 5},
		"past the end of the ring":      {m: arrival{length: 101}, bytes: 101},
		"after FIN":                     {m: arrival{length: 1}, bytes: 1, fin: true},
		"a control message of nothing":  {m: arrival{control: true}},
		"FIN twice":                     {m: arrival{control: true, fin: true}, fin: true},
	} {
		f := fresh()
		f.fin = test.fin
		before := f
		if err := f.arrive(test.m, test.bytes); err == nil || f != before {
			t.Errorf("%s: %v, %+v", name, err, f)
		}
	}
	f := fresh()
	f.arrived = f.consumed + ring - 10 // nearly full
	if f.arrive(arrival{length: 11}, 11) == nil {
		t.Error("more than the program has made room for")
	}
	f = fresh()
	f.arrived = f.consumed
	if f.arrive(arrival{length: f.maxMessage() + 1}, f.maxMessage()+1) == nil {
		t.Error("longer than a message may be")
	}
}

// FuzzArrive: whatever a peer sends, the accounts keep their order.
func FuzzArrive(f *testing.F) {
	f.Add(uint32(1), uint32(1), uint16(5))
	f.Add(uint32(immControl|immFIN|3), uint32(0), uint16(900))
	f.Fuzz(func(t *testing.T, imm, bytes uint32, posted uint16) {
		a := flow{terms: terms{minRing, receives}, written: uint64(posted), posted: uint64(posted), unposted: 2}
		for range 3 {
			m, err := parse(imm)
			if err == nil {
				err = a.arrive(m, uint64(bytes))
			}
			if a.freed > a.posted || a.posted > a.written || a.told > a.consumed || a.consumed > a.arrived || a.arrived > a.told+a.ring || a.unposted < 0 {
				t.Fatalf("%#x: %v, %+v", imm, err, a)
			}
		}
	})
}

// TestRuns checks the lengths of the messages that bytes leave in. For a device that sends runs of packets these are runs
// of about one length, and whole messages of one packet and full datagrams.
func TestRuns(t *testing.T) {
	for _, test := range []struct {
		packet, bytes uint64
		want          []uint64
	}{
		{0, 16384, []uint64{16384}},
		{4096, 100, []uint64{100}},
		{4096, 4096, []uint64{4096}},
		{4096, 16384, []uint64{4096, 4096, 4096, 4096}},
		{4096, 16000, []uint64{4000, 4000, 4000, 4000}},
		{4096, 8195, []uint64{2732, 2732, 2731}},
		{4096, 14*4096 + 1, []uint64{14*4096 + 1}},
		{0, 600 << 10, []uint64{256 << 10, 256 << 10, 88 << 10}},
		{4096, 600 << 10, []uint64{62*4096 - 4, 62*4096 - 4, 600<<10 - 2*(62*4096-4)}},
		{1024, 600 << 10, []uint64{250*1024 - 4, 250*1024 - 4, 600<<10 - 2*(250*1024-4)}},
	} {
		f := flow{terms: terms{defaultRing, receives}, packet: test.packet, run: min(65507/(test.packet+16), 64), written: test.bytes}
		var got []uint64
		for {
			_, m := f.next(false, false)
			if m.length == 0 {
				break
			}
			got = append(got, m.length)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%d bytes in packets of %d: messages of %v, want %v", test.bytes, test.packet, got, test.want)
		}
	}
}
