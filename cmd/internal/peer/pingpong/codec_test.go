package pingpong

// Tests with the lines of Debian's pingpong programs, and with other bytes.

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
	"github.com/rawverbs/rawverbs/oob"
)

// pingpongGolden is the line that ibv_rc_pingpong of rdma-core 44 sent from 10.99.0.1, as
// captured by tcpdump.
const pingpongGolden = "0000:000012:9c3db6:00000000000000000000ffff0a630001\x00"

var (
	pingpongEndpoint = oob.Endpoint{QPN: 0x12, PSN: 0x9c3db6, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 14: 0, 15: 1}}
	pingpongNone     = "0000:000000:000000:00000000000000000000000000000000\x00"
)

func TestPingpong(t *testing.T) {
	for _, test := range []struct {
		e    oob.Endpoint
		line string
	}{
		{pingpongEndpoint, pingpongGolden},
		{oob.Endpoint{LID: 0xbeef, QPN: 0xffffff, PSN: 0}, "beef:ffffff:000000:00000000000000000000000000000000\x00"},
		{oob.Endpoint{LID: 1, QPN: 1, PSN: 0xffffff, GID: [16]byte{0: 0xfe, 1: 0x80, 15: 0x0a}}, "0001:000001:ffffff:fe80000000000000000000000000000a\x00"},
	} {
		line, err := appendLine([]byte("before"), test.e)
		if err != nil || string(line) != "before"+test.line {
			t.Errorf("%+v: %q, %v; want %q", test.e, line, err, test.line)
		}
		if len(test.line) != lineSize {
			t.Errorf("%q has %d bytes", test.line, len(test.line))
		}
		e, err := decodeLine([]byte(test.line))
		if err != nil || e != test.e {
			t.Errorf("%q: %+v, %v; want %+v", test.line, e, err, test.e)
		}
		if err := checkStart([]byte(test.line[:startSize])); err != nil {
			t.Error(err)
		}
	}
}

func TestPingpongUnsendable(t *testing.T) {
	for _, e := range []oob.Endpoint{{}, {QPN: 1 << 24}, {QPN: 1, PSN: 1 << 24}} {
		if b, err := appendLine([]byte("before"), e); err == nil || string(b) != "before" {
			t.Errorf("%+v: %q, %v", e, b, err)
		}
	}
	for _, list := range [][]oob.Endpoint{nil, make([]oob.Endpoint, maxQPs+1), {pingpongEndpoint, {}}} {
		if b, err := appendSRQLines([]byte("before"), list); err == nil || string(b) != "before" {
			t.Errorf("%d endpoints: %d bytes, %v", len(list), len(b), err)
		}
	}
}

// TestPingpongMalformed decodes bytes that are not a line. The error must be a ProtocolError
// that quotes the bytes, says what to try, and is printable.
func TestPingpongMalformed(t *testing.T) {
	line := func(replace ...string) string { return strings.NewReplacer(replace...).Replace(pingpongGolden) }
	for _, test := range []struct{ came, text, try string }{
		{line("000012", "000000"), "queue pair number is 0", "ibv_rc_pingpong"},
		{line("\x00", "\n"), "not lid:qpn:psn:gid", "ibv_rc_pingpong"},
		{line("9c3db6", "9C3DB6"), "not lid:qpn:psn:gid", "ibv_rc_pingpong"},
		{line("ffff0a", "fff\x00ga"), "not lid:qpn:psn:gid", "ibv_rc_pingpong"},
		{line("b6:", "b6;"), "not lid:qpn:psn:gid", "ibv_rc_pingpong"},
		{pingpongGolden[:51], "has 51 bytes instead of 52", "ibv_rc_pingpong"},
		{pingpongGolden + "x", "has 53 bytes instead of 52", "ibv_rc_pingpong"},
		{pingpongGolden[:startSize], "has 12 bytes instead of 52", "ibv_rc_pingpong"},
		{"6.06" + strings.Repeat("\x00", 12), "a perftest program", "start this program's counterpart"},
		{"GET / HTTP/1.1\r\nHost: localhost:18515\r\nUser-Agent: cu", "an HTTP client", "right port"},
		{"HTTP/1.1 400 Bad Request\r\n", "an HTTP server", "right port"},
		{"SSH-2.0-OpenSSH_9.2p1\r\n", "an SSH server", "right port"},
		{"RVO\n\x01\x01\x00\x00\x00\x00\x00\x27", "native format", "exchange format here"},
		{strings.Repeat("\x01", 34), "like RDMA_RC_example", "exchange format here"},
		{strings.Repeat("\x1b", 52), "ibv_rc_pingpong or a similar program, not a line: 1b 1b", "--peer"},
	} {
		_, err := decodeLine([]byte(test.came))
		var e *oob.ProtocolError
		if !errors.As(err, &e) || !strings.Contains(e.Problem, test.text) || !strings.Contains(e.Try, test.try) {
			t.Errorf("%q: %v; want %q and %q", test.came, err, test.text, test.try)
			continue
		}
		if strings.ContainsFunc(err.Error(), peertest.Unprintable) {
			t.Errorf("%q: unprintable text %q", test.came, err)
		}
	}
}

func TestPingpongSRQ(t *testing.T) {
	second := oob.Endpoint{Index: 1, QPN: 0x13, PSN: 1, GID: pingpongEndpoint.GID}
	list := []oob.Endpoint{pingpongEndpoint, second}
	golden := pingpongGolden + "0000:000013:000001:00000000000000000000ffff0a630001\x00" + strings.Repeat(pingpongNone, 254)
	lines, err := appendSRQLines(nil, list)
	if err != nil || string(lines) != golden {
		t.Fatalf("%q, %v", lines, err)
	}
	if got, err := decodeSRQLines(lines); err != nil || !reflect.DeepEqual(got, list) {
		t.Errorf("%+v, %v; want %+v", got, err, list)
	}
	for _, test := range []struct{ lines, text string }{
		{pingpongGolden, "the peer sent one line"},
		{golden[:len(golden)-1], "the lines have 13311 bytes"},
		{golden[:len(golden)-lineSize], "the lines have 13260 bytes"},
		{strings.Repeat(pingpongNone, 256), "0 of the 256 lines"},
		{strings.Repeat(pingpongGolden, 256), "256 of the 256 lines"},
		{pingpongNone + pingpongGolden + golden[2*lineSize:], "line 2 of 256 has no queue pair, or follows a line without one"},
		{golden[:lineSize] + strings.Replace(pingpongNone, "0000:", "0001:", 1) + golden[2*lineSize:], "line 2 of 256 has no queue pair"},
		{golden[:lineSize] + strings.Repeat("HTTP", 13) + golden[2*lineSize:], "line 2 of 256"},
		{"", "not a line"},
	} {
		_, err := decodeSRQLines([]byte(test.lines))
		if !errors.As(err, new(*oob.ProtocolError)) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%.80q: %v; want %q", test.lines, err, test.text)
		}
	}
}

func TestPingpongDone(t *testing.T) {
	for came, text := range map[string]string{
		doneWord: "",
		"0000:":  "as ibv_srq_pingpong does",
		"done\n": `not the client's last message`,
		"GET /":  `not the client's last message`,
		"":       `not the client's last message`,
	} {
		err := checkDone([]byte(came))
		if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
			t.Errorf("%q: %v; want %q", came, err, text)
		}
	}
}

// FuzzPingpong checks that what decodes encodes to the same bytes, and that checkStart agrees
// with decodeLine.
func FuzzPingpong(f *testing.F) {
	f.Add([]byte(pingpongGolden))
	f.Add([]byte(pingpongNone))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := decodeLine(line)
		if err != nil {
			if !errors.As(err, new(*oob.ProtocolError)) || strings.ContainsFunc(err.Error(), peertest.Unprintable) {
				t.Fatalf("%q: %#v", line, err)
			}
			return
		}
		if again, err := appendLine(nil, e); err != nil || !bytes.Equal(again, line) {
			t.Fatalf("decoded %+v from %q, which encodes to %q, %v", e, line, again, err)
		}
		if err := checkStart(line[:startSize]); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzPingpongSRQ checks the same for 256 lines, some of them damaged.
func FuzzPingpongSRQ(f *testing.F) {
	golden, err := appendSRQLines(nil, []oob.Endpoint{pingpongEndpoint, pingpongEndpoint})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0, []byte{}, false)
	f.Add(lineSize, []byte(pingpongNone), false)
	f.Add(2*lineSize, []byte(pingpongGolden), true)
	f.Fuzz(func(t *testing.T, at int, with []byte, cut bool) {
		lines := bytes.Clone(golden)
		if at >= 0 && at < len(lines) {
			n := copy(lines[at:], with)
			if cut {
				lines = lines[:at+n]
			}
		}
		list, err := decodeSRQLines(lines)
		if err != nil {
			if !errors.As(err, new(*oob.ProtocolError)) || strings.ContainsFunc(err.Error(), peertest.Unprintable) {
				t.Fatalf("%#v", err)
			}
			return
		}
		if again, err := appendSRQLines(nil, list); err != nil || !bytes.Equal(again, lines) {
			t.Fatalf("decoded %d queue pairs, which encode to other bytes: %v", len(list), err)
		}
	})
}
