package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/pcap"
)

// The record and both captures of a run of write-read on soft0:
//
//	rdma_server --once --pcap server.pcap soft0
//	rdma_client --record write-read.jsonl --pcap client.pcap --job write-read 127.0.0.1 soft0
const recorded = "testdata/write-read.jsonl"

func readRecord(t testing.TB) *trace.Record {
	t.Helper()
	file, err := os.Open(recorded)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rec, err := trace.ReadRecord(file)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// add adds a capture of testdata, with its packets changed.
func add(t testing.TB, r *Report, name, end string, change func(number int, p *pcap.Packet) bool) error {
	t.Helper()
	file, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	packets, err := pcap.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var changed bytes.Buffer
	w, err := pcap.NewWriter(&changed)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for p, err := packets.Next(); err == nil; p, err = packets.Next() {
		if number++; change == nil || change(number, &p) {
			if err := w.Packet(p.At, p.IP); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r.AddCapture(name, end, &changed)
}

var embedded = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// pageOf writes the page, and returns it with the data in it.
func pageOf(t testing.TB, r *Report) (page string, d data) {
	t.Helper()
	var out bytes.Buffer
	if _, err := r.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	m := embedded.FindSubmatch(out.Bytes())
	if m == nil {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal(m[1], &d); err != nil {
		t.Fatal(err)
	}
	return out.String(), d
}

// The page has the lines of the record unchanged.
func TestPageHasTheRecord(t *testing.T) {
	rec := readRecord(t)
	_, d := pageOf(t, New(rec))
	file, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(file)), "\n")
	if len(d.Events) != len(lines)-1 {
		t.Fatalf("%d events, want %d", len(d.Events), len(lines)-1)
	}
	for i, e := range append([]json.RawMessage{d.Record}, d.Events...) {
		var got, want any
		if err := json.Unmarshal(e, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(lines[i]), &want); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if !bytes.Equal(a, b) {
			t.Errorf("line %d: %s\nwant %s", i+1, a, b)
		}
	}
}

// The page allows its own script alone, and asks for nothing.
func TestPageIsClosed(t *testing.T) {
	page, _ := pageOf(t, New(readRecord(t)))
	script := page[strings.LastIndex(page, "<script>")+len("<script>"):]
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	if hash := base64.StdEncoding.EncodeToString(sum[:]); !strings.Contains(page, "script-src 'sha256-"+hash+"'") {
		t.Errorf("the policy does not have the hash %s", hash)
	}
	for _, outside := range []string{"src=\"http", "href=\"http", "url(http", "@import"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
}

// Texts of a record come from strangers. None ends the element that has the data.
func TestHostileTexts(t *testing.T) {
	rec := readRecord(t)
	const text = `</script><img src=x onerror=alert(1)>{{script}} ` + "\u2028"
	rec.Error, rec.Done, rec.Job = text, false, text
	rec.Events[3].Message = text
	page, d := pageOf(t, New(rec))
	if strings.Contains(page, "<img") || strings.Count(page, "</script>") != 2 {
		t.Error("the page has an element of the record's text")
	}
	var e struct{ Msg string }
	if err := json.Unmarshal(d.Events[3], &e); err != nil || e.Msg != text {
		t.Errorf("%q, %v", e.Msg, err)
	}
}

// Both captures together show each packet once, from its sender to its receiver, with its request.
func TestPacketsOfBothEnds(t *testing.T) {
	for name, order := range map[string][]string{"client first": {"client.pcap", "server.pcap"}, "server first": {"server.pcap", "client.pcap"}} {
		t.Run(name, func(t *testing.T) {
			r := New(readRecord(t))
			for _, file := range order {
				if err := add(t, r, file, "", nil); err != nil {
					t.Fatal(err)
				}
			}
			_, d := pageOf(t, r)
			for i, c := range d.Captures {
				if c.Name != c.End+".pcap" || c.Packets != 4 || c.Others != 0 {
					t.Errorf("capture %d: %+v", i, c)
				}
			}
			want := []struct{ opcode, from, post string }{
				{"RC_RDMA_WRITE_ONLY", "client", "post RDMA_WRITE"}, {"RC_ACKNOWLEDGE", "server", "post RDMA_WRITE"},
				{"RC_RDMA_READ_REQUEST", "client", "post RDMA_READ"}, {"RC_RDMA_READ_RESPONSE_ONLY", "server", "post RDMA_READ"},
			}
			if len(d.Packets) != len(want) {
				t.Fatalf("%d packets", len(d.Packets))
			}
			for i, p := range d.Packets {
				if p.Opcode != want[i].opcode || p.From != want[i].from || p.Sent == "" || p.Received < p.Sent || p.Lost || p.Again {
					t.Errorf("packet %d: %+v", i, p)
				}
				if p.Event == nil || r.record.Events[*p.Event].Message != want[i].post {
					t.Errorf("packet %d belongs to event %v", i, p.Event)
				}
				bits := 0
				for _, f := range d.Shapes[p.Shape].Fields {
					bits += f.Width
				}
				if bits > 4*len(p.Head) || bits < 8*(20+8+12) {
					t.Errorf("packet %d: %d bits of fields, %d digits", i, bits, len(p.Head))
				}
			}
		})
	}
}

// One capture has no time of the other end, whatever the clock of the host that made it.
func TestOneCapture(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"same clock": 0, "an hour ahead": time.Hour, "years behind": -3000 * 24 * time.Hour} {
		r := New(readRecord(t))
		if err := add(t, r, "client.pcap", "", func(_ int, p *pcap.Packet) bool { p.At = p.At.Add(ahead); return true }); err != nil {
			t.Fatal(err)
		}
		_, d := pageOf(t, r)
		for i, p := range d.Packets {
			post := r.record.Events[*p.Event].Time.Format(timeLayout)
			if (p.Sent == "") == (p.Received == "") || (p.Sent == "") == (p.From == "client") || p.Lost || p.Sent+p.Received < post {
				t.Errorf("%s, packet %d: %+v, posted at %s", name, i, p, post)
			}
		}
		if moved := strings.Contains(d.Captures[0].Why, "its clock is "); moved != (ahead != 0) {
			t.Errorf("%s: %+v", name, d.Captures[0])
		}
	}
}

// The clock of a single capture shows that the server's host has made it.
func TestClockShowsTheEnd(t *testing.T) {
	rec := readRecord(t)
	rec.Clock.Offset = 200 * time.Millisecond
	r := New(rec)
	if err := add(t, r, "server.pcap", "", func(_ int, p *pcap.Packet) bool { p.At = p.At.Add(rec.Clock.Offset); return true }); err != nil {
		t.Fatal(err)
	}
	if _, d := pageOf(t, r); d.Captures[0].End != "server" || d.Captures[0].Ahead != rec.Clock.Offset.Nanoseconds() {
		t.Errorf("%+v", d.Captures[0])
	}
}

// A packet that the receiver does not have was lost; the copy that arrives was sent again.
func TestLostPacket(t *testing.T) {
	r := New(readRecord(t))
	var first []byte
	var at time.Time
	if err := add(t, r, "client.pcap", "client", func(n int, p *pcap.Packet) bool {
		switch n {
		case 1:
			first, at = bytes.Clone(p.IP), p.At
		case 2: // the ACK becomes the copy
			p.IP, p.At = first, at.Add(400*time.Microsecond)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if err := add(t, r, "server.pcap", "server", func(n int, p *pcap.Packet) bool {
		switch n {
		case 1: // something earlier, so that the capture was running
			p.At = p.At.Add(450 * time.Microsecond)
		case 2:
			p.At = p.At.Add(-20 * time.Millisecond)
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	_, d := pageOf(t, r)
	var lost, again int
	for _, p := range d.Packets {
		if p.Lost {
			lost++
		}
		if p.Again && p.Received != "" {
			again++
		}
	}
	if lost != 1 || again != 1 {
		t.Errorf("%d lost, %d sent again: %+v", lost, again, d.Packets)
	}
}

// A packet that was damaged on the way has a wrong ICRC. One that a capture has cut has the ICRC of the other end's.
func TestDamagedPacket(t *testing.T) {
	r := New(readRecord(t))
	cut := func(number int) func(int, *pcap.Packet) bool {
		return func(n int, p *pcap.Packet) bool {
			if n == number {
				p.IP = p.IP[:len(p.IP)-4]
			}
			return true
		}
	}
	if err := add(t, r, "client.pcap", "client", cut(3)); err != nil {
		t.Fatal(err)
	}
	if err := add(t, r, "server.pcap", "server", func(n int, p *pcap.Packet) bool {
		if n == 1 {
			p.IP = bytes.Clone(p.IP)
			p.IP[len(p.IP)-5] ^= 1 // the payload's last byte
		}
		return cut(4)(n, p)
	}); err != nil {
		t.Fatal(err)
	}
	_, d := pageOf(t, r)
	for i, p := range d.Packets {
		if (p.Computed != "") != (i == 0) || len(p.Carried) != len("0x00000000") || p.Computed == p.Carried {
			t.Errorf("packet %d: the ICRC is %q, computed %q", i, p.Carried, p.Computed)
		}
	}
}

// A wrong capture gives one error, and a cut one its packets.
func TestWrongCaptures(t *testing.T) {
	other, err := os.ReadFile("../../../../softroce/internal/packet/testdata/rc-send-ipv4.pcap")
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("testdata/client.pcap")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"no capture":   {[]byte("hello"), "not a capture"},
		"empty":        {own[:24], "has no packets"},
		"another run":  {other, "is for a queue pair of the run (client 0x"},
		"cut at first": {own[:30], "it was cut"},
	} {
		if err := New(readRecord(t)).AddCapture(name, "", bytes.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	r := New(readRecord(t))
	if err := r.AddCapture("cut.pcap", "", bytes.NewReader(own[:len(own)-3])); err != nil {
		t.Fatal(err)
	}
	if _, d := pageOf(t, r); len(d.Packets) != 3 || !strings.Contains(d.Captures[0].Cut, "it was cut") {
		t.Errorf("a cut capture: %+v", d.Captures)
	}
	rec := readRecord(t)
	rec.Events = rec.Events[:3]
	if err := New(rec).AddCapture("client.pcap", "", bytes.NewReader(own)); err == nil || !strings.Contains(err.Error(), "names no queue pair") {
		t.Errorf("a record without queue pairs: %v", err)
	}
}

// A device's own packets are kept up to a limit: the first and the last.
func TestCollector(t *testing.T) {
	var packets Collector
	file, err := os.Open("testdata/client.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	capture, err := pcap.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	p, err := capture.Next()
	if err != nil {
		t.Fatal(err)
	}
	const sent = 50_000
	for i := range sent {
		if err := packets.Packet(p.At.Add(time.Duration(i)), p.IP); err != nil {
			t.Fatal(err)
		}
	}
	r := New(readRecord(t))
	r.AddPackets("soft0", trace.EndClient, &packets)
	c := r.captures[0]
	if len(c.packets) != maxPackets || c.omitted != sent-maxPackets {
		t.Errorf("%d packets, %d omitted", len(c.packets), c.omitted)
	}
	if last := c.packets[maxPackets-1].at.Sub(c.packets[0].at); last != sent-1 {
		t.Errorf("from the first to the last: %d", last)
	}
	if d := c.data(); d.After != timeText(c.packets[collectorHead-1].at) || d.Until != timeText(c.packets[collectorHead].at) {
		t.Errorf("omitted from %s to %s", d.After, d.Until)
	}
}

func FuzzCapture(f *testing.F) {
	for _, name := range []string{"client.pcap", "server.pcap"} {
		file, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(file)
	}
	rec := readRecord(f)
	f.Fuzz(func(t *testing.T, file []byte) {
		r := New(rec)
		if r.AddCapture("a.pcap", "", bytes.NewReader(file)) != nil {
			return
		}
		if r.AddCapture("b.pcap", "", bytes.NewReader(file)) != nil {
			t.Error("a capture that was good the first time")
		}
		r.settle()
		if len(packetsData(r.joined)) > 2*len(file)/16 {
			t.Errorf("%d packets in %d bytes", len(r.joined), len(file))
		}
	})
}
