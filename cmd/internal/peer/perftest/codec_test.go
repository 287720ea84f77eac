package perftest

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
	"github.com/rawverbs/rawverbs/oob"
)

// messageKinds are the kinds of messages. Each function decodes a message and encodes it again.
var messageKinds = map[string]func(data []byte) ([]byte, error){
	"version": func(data []byte) ([]byte, error) {
		return appendVersion(nil), decodeVersion(data)
	},
	"number": func(data []byte) ([]byte, error) {
		n, err := decodeNumber(data)
		if err != nil {
			return nil, err
		}
		return appendNumber(nil, n)
	},
	"MTU": func(data []byte) ([]byte, error) {
		mtu, err := decodeMTU(data)
		if err != nil {
			return nil, err
		}
		return appendMTU(nil, mtu)
	},
	"key": func(data []byte) ([]byte, error) {
		k, err := decodeKey(data)
		if err != nil {
			return nil, err
		}
		return appendKey(nil, k)
	},
	"report": func(data []byte) ([]byte, error) {
		r, err := decodeReport(data)
		if err != nil {
			return nil, err
		}
		return appendReport(nil, r)
	},
	"done": func(data []byte) ([]byte, error) { return []byte(doneWord), nil },
}

// captured returns what one end wrote in a captured run of two C ends. testdata has one line
// per write, with "C" for the client or "S" for the server before it.
func captured(t testing.TB, file, who string) [][]byte {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var writes [][]byte
	for lines := bufio.NewScanner(f); lines.Scan(); {
		end, quoted, _ := strings.Cut(lines.Text(), " ")
		if end != who {
			continue
		}
		data, err := strconv.Unquote(quoted)
		if err != nil {
			t.Fatalf("%s: %q: %v", file, lines.Text(), err)
		}
		writes = append(writes, []byte(data))
	}
	return writes
}

// TestPerftestCaptured checks that each write of the C ends decodes, and encodes to the same
// bytes.
func TestPerftestCaptured(t *testing.T) {
	for file, want := range map[string]struct {
		client, server qpKey
		reports        bool
	}{
		"perftest-send-bw.txt": {
			qpKey{OutReads: 1, QPN: 0x12, PSN: 0x925d85, RKey: 0x348, Addr: 0x5623a08d6000, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
			qpKey{OutReads: 1, QPN: 0x11, PSN: 0x100bd0, RKey: 0x2a9, Addr: 0x559075e16000, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
			false,
		},
		"perftest-read-bw.txt": {
			qpKey{OutReads: 128, QPN: 0x14, PSN: 0x1e7956, RKey: 0x4ac, Addr: 0x5634dc435000, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
			qpKey{OutReads: 128, QPN: 0x13, PSN: 0xaef2ad, RKey: 0x505, Addr: 0x558e34890000, GID: [16]byte{10: 0xff, 11: 0xff, 12: 10, 13: 99, 15: 1}},
			true,
		},
	} {
		for who, key := range map[string]qpKey{"C": want.client, "S": want.server} {
			writes := captured(t, file, who)
			parts := []string{"version", "number", "number", "MTU", "key", "key", "key", "key"}
			if want.reports {
				at := len(parts)
				if len(writes) < at+5 {
					t.Fatalf("%s %s: %d writes", file, who, len(writes))
				}
				report := bytes.Join(writes[at:at+5], nil)
				writes = slices.Delete(writes, at, at+5)
				if who == "C" { // the server has no report
					if again, err := messageKinds["report"](report); err != nil || !bytes.Equal(again, report) {
						t.Errorf("%s %s: report %x encodes to %x, %v", file, who, report, again, err)
					}
					if r, _ := decodeReport(report); r.Size != 65536 || r.Iterations != 100 || r.Peak < r.Average || r.Average < 1 || r.Rate <= 0 {
						t.Errorf("%s %s: report %+v", file, who, r)
					}
				}
			}
			parts = append(parts, "key", "done")
			if len(writes) != len(parts) {
				t.Fatalf("%s %s: %d writes, want %d", file, who, len(writes), len(parts))
			}
			for i, part := range parts {
				if again, err := messageKinds[part](writes[i]); err != nil || !bytes.Equal(again, writes[i]) {
					t.Errorf("%s %s: %s %q encodes to %q, %v", file, who, part, writes[i], again, err)
				}
			}
			if k, err := decodeKey(writes[4]); err != nil || k != key {
				t.Errorf("%s %s: key %+v, %v; want %+v", file, who, k, err, key)
			}
		}
	}
}

// TestPerftestVersions checks that other versions are refused. They send theirs in the same
// message.
func TestPerftestVersions(t *testing.T) {
	version := func(text string) []byte { return append([]byte(text), make([]byte, versionSize-len(text))...) }
	for _, v := range []string{"5.6", "5.96", "6.05", "6.10", "6.29", "25.10"} {
		err := decodeVersion(version(v))
		if !errors.Is(err, oob.ErrVersion) || !strings.Contains(err.Error(), "version "+v+" of perftest's exchange") || !strings.Contains(err.Error(), "4.5+0.17") {
			t.Errorf("%s: %v", v, err)
		}
	}
	for what, test := range map[string]struct {
		data []byte
		want string
	}{
		"empty":           {nil, "perftest"},
		"short":           {version("6.06")[:4], "perftest"},
		"long":            {append(version("6.06"), 0), "perftest"},
		"no NUL after it": {[]byte("6.06 and the rest"), "perftest"},
		"zeros":           {version(""), "perftest"},
		"HTTP":            {[]byte("GET / HTTP/1.1\r\n"), "an HTTP client"},
		"pingpong":        {[]byte("0000:000011:8f3a2b:"), "ibv_rc_pingpong"},
		"the native":      {[]byte("RVO\n\x01\x01and so on.."), "rawverbs' native format"},
		"a terminal's":    {[]byte("\x1b]0;evil\x07\n1234567"), "1b 5d 30"},
	} {
		err := decodeVersion(test.data[:min(len(test.data), versionSize+1)])
		if !errors.Is(err, oob.ErrForeignPeer) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q", what, err, test.want)
		}
	}
}

// TestPerftestRefused checks that each decoder refuses invalid messages.
func TestPerftestRefused(t *testing.T) {
	key := captured(t, "perftest-send-bw.txt", "C")[4]
	change := func(at int, to string) []byte {
		other := bytes.Clone(key)
		copy(other[at:], to)
		return other
	}
	for what, test := range map[string]struct {
		part string
		data []byte
		want string
	}{
		"number, short":            {"number", []byte{0, 0, 16}, "perftest"},
		"number, 0":                {"number", []byte{0, 0, 0, 0}, "0 is not the size"},
		"number, negative":         {"number", []byte{0x80, 0, 0, 0}, "is not the size"},
		"number, large":            {"number", []byte{0x40, 0, 0, 0}, "is not the size"},
		"number, no page":          {"number", []byte{0, 2, 0, 0}, "131072 is not the size"},
		"number, no power of two":  {"number", []byte{0, 0, 0x10, 1}, "4097 is not the size"},
		"MTU, 0":                   {"MTU", []byte("0\x00"), "not a path MTU"},
		"MTU, 6":                   {"MTU", []byte("6\x00"), "not a path MTU"},
		"MTU, no NUL":              {"MTU", []byte("33"), "not a path MTU"},
		"MTU, empty":               {"MTU", nil, "not a path MTU"},
		"key, short":               {"key", key[:len(key)-1], "not a key"},
		"key, long":                {"key", append(bytes.Clone(key), 0), "not a key"},
		"key, upper case":          {"key", change(13, "F"), "not a key"},
		"key, a colon missing":     {"key", change(4, "0"), "not a key"},
		"key, no QPN":              {"key", change(10, "000000"), "queue pair number 0x0"},
		"key, a report's value":    {"key", make([]byte, 8), "not a key"},
		"key, without a GID":       {"key", []byte("0000:0001:000012:925d85:00000348:00005623a08d6000:00000000\x00"), "ib_send_bw -x 1"},
		"report, short":            {"report", make([]byte, reportSize-1), "not a report"},
		"report, not a number":     {"report", bytes.Repeat([]byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 5), "not possible"},
		"report, negative":         {"report", append(make([]byte, 32), 0xbf, 0xf0, 0, 0, 0, 0, 0, 0), "message rate of -1"},
		"report, so many messages": {"report", append([]byte{8: 0xff}, make([]byte, 31)...), "not possible"},
	} {
		_, err := messageKinds[test.part](test.data)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v; want %q and what to try", what, err, test.want)
		}
	}
	for what, err := range map[string]error{
		"a queue pair 0":   second(appendKey(nil, qpKey{})),
		"a large QPN":      second(appendKey(nil, qpKey{QPN: 1 << 24})),
		"a large PSN":      second(appendKey(nil, qpKey{QPN: 1, PSN: 1 << 24})),
		"an MTU of 1000":   second(appendMTU(nil, 1000)),
		"a page of 100":    second(appendNumber(nil, 100)),
		"an infinite rate": second(appendReport(nil, bandwidthReport{Rate: math.Inf(1)})),
	} {
		if err == nil {
			t.Errorf("%s was encoded", what)
		}
	}
}

func second(_ []byte, err error) error { return err }

// TestPerftestKeyContinues checks that a reader of shortKeySize bytes knows whether more bytes
// follow.
func TestPerftestKeyContinues(t *testing.T) {
	key := captured(t, "perftest-send-bw.txt", "C")[4]
	if !keyContinues(key[:shortKeySize]) {
		t.Error("a key with a GID ends early")
	}
	short := []byte("0000:0001:000012:925d85:00000348:00005623a08d6000:00000000\x00")
	if len(short) != shortKeySize || keyContinues(short) {
		t.Error("a key without a GID continues")
	}
}

func FuzzPerftest(f *testing.F) {
	for _, data := range captured(f, "perftest-send-bw.txt", "C") {
		f.Add(data)
	}
	f.Add([]byte("0000:0001:000012:925d85:00000348:00005623a08d6000:00000000\x00"))
	f.Add(make([]byte, reportSize))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, part := range messageKinds {
			again, err := part(data)
			switch {
			case name == "done":
			case err == nil && !bytes.Equal(again, data):
				t.Errorf("%s: %q encodes to %q", name, data, again)
			case err != nil && strings.ContainsFunc(err.Error(), peertest.Unprintable):
				t.Errorf("%s: unprintable: %q", name, err)
			}
		}
	})
}
