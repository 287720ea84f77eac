package pcap_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/pcap"
)

// readAll returns all packets of a capture, with copies of their bytes.
func readAll(file []byte) (packets []pcap.Packet, err error) {
	r, err := pcap.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return packets, nil
		}
		if err != nil {
			return packets, err
		}
		p.IP = bytes.Clone(p.IP)
		packets = append(packets, p)
	}
}

var at = time.Date(2026, 1, 2, 3, 4, 5, 678901234, time.UTC)

// What the Writer writes, the Reader reads.
func TestReadWhatWasWritten(t *testing.T) {
	var file bytes.Buffer
	w, err := pcap.NewWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := w.Packet(at.Add(time.Duration(i)), []byte{0x45, byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	packets, err := readAll(file.Bytes())
	if err != nil || len(packets) != 3 {
		t.Fatalf("%d packets, %v", len(packets), err)
	}
	for i, p := range packets {
		if !p.At.Equal(at.Add(time.Duration(i))) || !bytes.Equal(p.IP, []byte{0x45, byte(i)}) || p.Length != 2 {
			t.Errorf("packet %d: %+v", i, p)
		}
	}
}

// classic makes a pcap file of one frame.
func classic(order binary.AppendByteOrder, magic, link, fraction uint32, frame []byte) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...)
	b = order.AppendUint32(b, 65535)
	b = order.AppendUint32(b, link)
	b = order.AppendUint32(b, uint32(at.Unix()))
	b = order.AppendUint32(b, fraction)
	b = order.AppendUint32(b, uint32(len(frame)))
	b = order.AppendUint32(b, uint32(len(frame)))
	return append(b, frame...)
}

// blockOf makes a block of a pcapng file.
func blockOf(order binary.AppendByteOrder, kind uint32, body []byte) []byte {
	length := uint32(12 + len(body))
	b := order.AppendUint32(nil, kind)
	b = order.AppendUint32(b, length)
	b = append(b, body...)
	return order.AppendUint32(b, length)
}

// ng makes a pcapng file of one frame. The resolution is that of the interface's times.
func ng(order binary.AppendByteOrder, link uint16, resolution byte, ticks uint64, frame []byte) []byte {
	section := order.AppendUint32(nil, 0x1a2b3c4d)
	section = order.AppendUint16(section, 1)
	section = append(section, make([]byte, 10)...)
	b := blockOf(order, 0x0a0d0d0a, section)
	iface := order.AppendUint16(nil, link)
	iface = append(iface, make([]byte, 6)...)
	iface = order.AppendUint16(iface, 9)
	iface = order.AppendUint16(iface, 1)
	iface = append(iface, resolution, 0, 0, 0, 0, 0, 0, 0)
	b = append(b, blockOf(order, 1, iface)...)
	b = append(b, blockOf(order, 5, []byte("skip"))...) // statistics
	packet := order.AppendUint32(nil, 0)
	packet = order.AppendUint32(packet, uint32(ticks>>32))
	packet = order.AppendUint32(packet, uint32(ticks))
	packet = order.AppendUint32(packet, uint32(len(frame)))
	packet = order.AppendUint32(packet, uint32(len(frame)))
	packet = append(packet, frame...)
	packet = append(packet, make([]byte, -len(frame)&3)...)
	return append(b, blockOf(order, 6, packet)...)
}

// Every format of files and every kind of frame gives the same IP packet at the same time.
func TestFormats(t *testing.T) {
	ip := []byte{0x45, 1, 2, 3, 4}
	with := func(header ...byte) []byte { return append(header, ip...) }
	ethernet := with(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 8, 0)
	little, big := binary.LittleEndian, binary.BigEndian
	nano := uint32(at.Nanosecond())
	for name, c := range map[string]struct {
		file []byte
		unit time.Duration
	}{
		"micro":         {classic(little, 0xa1b2c3d4, 1, nano/1000, ethernet), time.Microsecond},
		"micro big":     {classic(big, 0xa1b2c3d4, 1, nano/1000, ethernet), time.Microsecond},
		"nano big":      {classic(big, 0xa1b23c4d, 101, nano, ip), 1},
		"FCS length":    {classic(little, 0xa1b23c4d, 1|4<<28, nano, ethernet), 1},
		"VLAN":          {classic(little, 0xa1b23c4d, 1, nano, with(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0x81, 0, 0, 7, 8, 0)), 1},
		"QinQ, IPv6":    {classic(little, 0xa1b23c4d, 1, nano, with(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6, 0x88, 0xa8, 0, 7, 0x81, 0, 0, 7, 0x86, 0xdd)), 1},
		"any":           {classic(little, 0xa1b23c4d, 113, nano, with(0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0)), 1},
		"any, newer":    {classic(little, 0xa1b23c4d, 276, nano, with(8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0)), 1},
		"loopback":      {classic(little, 0xa1b23c4d, 0, nano, with(2, 0, 0, 0)), 1},
		"ng":            {ng(little, 1, 9, uint64(at.UnixNano()), ethernet), 1},
		"ng big, micro": {ng(big, 101, 6, uint64(at.UnixMicro()), ip), time.Microsecond},
		"ng, 2^-30":     {ng(little, 101, 0x80|30, uint64(at.Unix())<<30|uint64(at.Nanosecond())<<30/1e9, ip), 1},
	} {
		packets, err := readAll(c.file)
		if err != nil || len(packets) != 1 {
			t.Errorf("%s: %d packets, %v", name, len(packets), err)
			continue
		}
		p := packets[0]
		if !bytes.Equal(p.IP, ip) || at.Sub(p.At) < 0 || at.Sub(p.At) >= max(c.unit, 2) {
			t.Errorf("%s: %v % x, want %v % x", name, p.At, p.IP, at, ip)
		}
	}
	packets, err := readAll(classic(little, 0xa1b23c4d, 1, nano, append(make([]byte, 12), 8, 6, 1)))
	if err != nil || len(packets) != 1 || packets[0].IP != nil {
		t.Errorf("ARP: %+v, %v", packets, err)
	}
}

// Captures of rxe that tcpdump has made.
func TestReadCapturesOfTcpdump(t *testing.T) {
	files, err := filepath.Glob("../../softroce/internal/packet/testdata/*.pcap")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		packets, err := readAll(file)
		if err != nil || len(packets) == 0 {
			t.Errorf("%s: %d packets, %v", name, len(packets), err)
		}
		for i, p := range packets {
			if len(p.IP) < 44 || p.IP[0]>>4 != 4 && p.IP[0]>>4 != 6 {
				t.Errorf("%s, packet %d: %v, %d bytes", name, i, p.At, len(p.IP))
			}
		}
	}
}

// A wrong file gives an error that says what is wrong, and a cut file the packets before the cut.
func TestWrongCaptures(t *testing.T) {
	good := classic(binary.LittleEndian, 0xa1b2c3d4, 1, 0, make([]byte, 60))
	goodNG := ng(binary.LittleEndian, 1, 6, 0, make([]byte, 60))
	changed := func(file []byte, at int, with ...byte) []byte {
		file = bytes.Clone(file)
		copy(file[at:], with)
		return file
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"empty":             {nil, "not a capture"},
		"text":              {[]byte("{\"schema\":"), "not a capture"},
		"header cut":        {good[:20], "it was cut"},
		"version":           {changed(good, 4, 9), "version 9"},
		"link type":         {changed(good, 20, 147), "link type 147"},
		"cut":               {good[:len(good)-1], "ends within packet 1; it was cut"},
		"cut in the header": {good[:30], "ends within packet 1; it was cut"},
		"too long":          {changed(good, 32, 0xff, 0xff, 0xff, 0xff), "the file is damaged"},
		"ng cut":            {goodNG[:len(goodNG)-1], "it was cut"},
		"ng order":          {changed(goodNG, 8, 1), "not a capture"},
		"ng section cut":    {goodNG[:9], "it was cut"},
		"ng length":         {changed(goodNG, 4, 3), "no block has"},
		"ng two lengths":    {changed(goodNG, 24, 9), "two lengths"},
		"ng no interface":   {append(goodNG[:28:28], goodNG[60:]...), "contradicts itself"},
		"ng simple":         {append(goodNG[:28:28], blockOf(binary.LittleEndian, 3, make([]byte, 8))...), "without times"},
		"ng unit":           {ng(binary.LittleEndian, 1, 0x7f, 0, nil), "too small"},
	} {
		if _, err := readAll(c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	packets, err := readAll(append(bytes.Clone(good), good[24:50]...))
	if len(packets) != 1 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut file: %d packets, %v", len(packets), err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(classic(binary.LittleEndian, 0xa1b2c3d4, 1, 5, make([]byte, 60)))
	f.Add(classic(binary.BigEndian, 0xa1b23c4d, 101, 5, []byte{0x45, 1}))
	f.Add(ng(binary.LittleEndian, 1, 9, 77, make([]byte, 60)))
	f.Add(ng(binary.BigEndian, 276, 0x90, 77, make([]byte, 61)))
	f.Fuzz(func(t *testing.T, file []byte) {
		packets, err := readAll(file)
		if err == nil && 8*len(packets) > len(file) {
			t.Errorf("%d packets in %d bytes", len(packets), len(file))
		}
	})
}
