package dissect_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/rawverbs/rawverbs/internal/pcap"
	"github.com/rawverbs/rawverbs/softroce/dissect"
)

// packets calls yield with every IP packet of the captures of rxe.
func packets(t testing.TB, yield func(name string, ip []byte)) {
	t.Helper()
	files, err := filepath.Glob("../internal/packet/testdata/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		r, err := pcap.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		for p, err := r.Next(); err == nil; p, err = r.Next() {
			yield(filepath.Base(name), p.IP)
		}
	}
}

// TestICRC shows that every packet of rxe has the ICRC that is computed here, and no other if a bit of it is inverted.
func TestICRC(t *testing.T) {
	packets(t, func(name string, ip []byte) {
		p, err := dissect.Parse(ip)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if carried, computed, whole := p.ICRC(); carried != computed || !whole {
			t.Errorf("%s %s: the ICRC is %#08x, want %#08x; whole: %v", name, p.Opcode, carried, computed, whole)
		}
		damaged := bytes.Clone(ip)
		damaged[p.Headers-1] ^= 1
		if d, err := dissect.Parse(damaged); err == nil {
			if carried, computed, _ := d.ICRC(); carried == computed {
				t.Errorf("%s %s: the ICRC does not show an inverted bit", name, p.Opcode)
			}
		}
		if short, err := dissect.Parse(ip[:len(ip)-1]); err == nil {
			if _, _, whole := short.ICRC(); whole {
				t.Errorf("%s %s: whole without its last byte", name, p.Opcode)
			}
		}
	})
}

// The fields of every packet that rxe has sent cover the headers once, whether the capture has the
// whole packet or only its headers.
func TestFieldsCoverTheHeaders(t *testing.T) {
	kinds := map[string]int{}
	packets(t, func(name string, ip []byte) {
		p, err := dissect.Parse(ip)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kinds[p.Kind]++
		for _, kept := range []int{len(ip), p.Headers} {
			short, err := dissect.Parse(ip[:kept])
			if err != nil || short.Payload != p.Payload || short.Opcode != p.Opcode || short.PSN != p.PSN || short.Carries != p.Carries {
				t.Fatalf("%s, cut to %d of %d bytes: %+v, %v; want %+v", name, kept, len(ip), short, err, p)
			}
			at := 0
			for _, f := range short.Fields() {
				if f.Bit != at {
					t.Fatalf("%s: %s %s at bit %d, want %d", name, f.Header, f.Name, f.Bit, at)
				}
				at += f.Width
			}
			if at != 8*p.Headers {
				t.Errorf("%s %s: the fields cover %d bits, want %d", name, p.Opcode, at, 8*p.Headers)
			}
		}
		if _, err := dissect.Parse(ip[:p.Headers-1]); err == nil {
			t.Errorf("%s %s: no error without the last byte of the headers", name, p.Opcode)
		}
	})
	for _, kind := range []string{"SEND", "RDMA_WRITE", "RDMA_READ_REQUEST", "RDMA_READ_RESPONSE", "ACKNOWLEDGE", "FETCH_ADD"} {
		if kinds[kind] == 0 {
			t.Errorf("no packet is a %s: %v", kind, kinds)
		}
	}
}

func TestOther(t *testing.T) {
	tcp := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6}, make([]byte, 30)...)
	dns := append([]byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17}, make([]byte, 30)...)
	for _, ip := range [][]byte{nil, {0x45}, tcp, dns, make([]byte, 100)} {
		if _, err := dissect.Parse(ip); !errors.Is(err, dissect.ErrOther) {
			t.Errorf("% x: %v", ip, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	n := 0
	packets(f, func(_ string, ip []byte) {
		if n++; n%7 == 0 {
			f.Add(ip)
		}
	})
	f.Fuzz(func(t *testing.T, ip []byte) {
		p, err := dissect.Parse(ip)
		if err != nil {
			return
		}
		bits := 0
		for _, field := range p.Fields() {
			bits += field.Width
		}
		if bits != 8*p.Headers || p.Headers > len(p.Frame) || p.Payload > 4096 {
			t.Errorf("%d bits of %d bytes, %+v", bits, p.Headers, p)
		}
	})
}
