package rocev2learn

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestQueuePairs uses the bytes of a later copy with two queue pairs, written by hand.
func TestQueuePairs(t *testing.T) {
	list := []queuePair{structure.Value, {QPN: 0x11, GID: [16]byte{15: 1}}}
	want := "02000000" + structure.Hex + "11000000" + "0000" + "00000000000000000000000000000001"
	data, err := appendQueuePairs(nil, list)
	if err != nil || hex.EncodeToString(data) != want {
		t.Fatalf("encoded %x, %v; want %s", data, err, want)
	}
	if back, err := decodeQueuePairs(data); err != nil || !reflect.DeepEqual(back, list) {
		t.Errorf("decoded %+v, %v", back, err)
	}
	for _, bad := range [][]byte{nil, data[:3], data[:len(data)-1], append(bytes.Clone(data), 0), make([]byte, 26), {17, 0, 0, 0}} {
		if list, err := decodeQueuePairs(bad); err == nil {
			t.Errorf("%x decoded to %+v", bad, list)
		}
	}
	for _, n := range []int{0, maxQueuePairs + 1} {
		if _, err := appendQueuePairs(nil, make([]queuePair, n)); err == nil {
			t.Errorf("%d queue pairs were encoded", n)
		}
	}
}

func FuzzDecodeQueuePairs(f *testing.F) {
	data, _ := appendQueuePairs(nil, []queuePair{structure.Value, structure.Value})
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodeQueuePairs(data)
		if err != nil {
			return
		}
		if again, err := appendQueuePairs(nil, list); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%x decoded to %+v and encoded to %x, %v", data, list, again, err)
		}
	})
}

// TestBothFormats checks that the client selects the format and the server answers in the same
// one.
func TestBothFormats(t *testing.T) {
	for qps, messages := range map[string]int{"": 1, "--qps=1": 1, "--qps=4": 4, "--qps=16": 16} {
		t.Run(qps, func(t *testing.T) {
			var args []string
			if qps != "" {
				args = []string{qps}
			}
			client, clientLog := peertest.NewEnd(t, Peer.Jobs[0], true, args...)
			server, serverLog := peertest.NewEnd(t, Peer.Jobs[0], false)
			if cerr, serr := peertest.Between(t, client, server); cerr != nil || serr != nil {
				t.Fatalf("client: %v; server: %v", cerr, serr)
			}
			for _, log := range []struct{ text, want string }{{clientLog.String(), "text=hello from the server bytes=4096"}, {serverLog.String(), "text=hello from the client"}} {
				if n := strings.Count(log.text, log.want); n != messages {
					t.Errorf("%d messages have %q, want %d:\n%s", n, log.want, messages, log.text)
				}
			}
		})
	}
}

// TestOtherCopies checks that the error names a C end with another number of queue pairs or of
// another copy, and the flag for it.
func TestOtherCopies(t *testing.T) {
	one := queuePair{QPN: 0x123456, GID: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
	earlier, _ := packed.Append(nil, one)
	later, _ := appendQueuePairs(nil, []queuePair{one, one, one, one})
	for name, test := range map[string]struct {
		args  []string
		sends []byte
		want  string
	}{
		"later server":             {nil, later, "the server is a later copy with 4 queue pairs, but this end expects an earlier copy; try: --qps 4"},
		"earlier server":           {[]string{"--qps", "4"}, earlier, "the server is an earlier copy with one queue pair; try: without --qps"},
		"another number":           {[]string{"--qps", "2"}, later, "the server has 4 queue pairs, but this end has 2; try: --qps 4"},
		"no number":                {[]string{"--qps", "2"}, make([]byte, 48), "queue pair number 0x0"},
		"cut short":                {[]string{"--qps", "4"}, later[:60], "after 38 of 70 bytes"},
		"no queue pair among them": {[]string{"--qps", "1"}, append(binary.LittleEndian.AppendUint32(nil, 1), make([]byte, 22)...), "queue pair number 0x0"},
	} {
		t.Run(name, func(t *testing.T) {
			e, _ := peertest.NewEnd(t, Peer.Jobs[0], true, test.args...)
			err := peertest.Against(t.Context(), t, e, true, testkit.Limit, func(c net.Conn) {
				defer c.Close()
				c.Write(test.sends)
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
			})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v; want %q", err, test.want)
			}
		})
	}
}

// TestServerRepliesInKind checks that the server writes only after it has read, and sends as
// many queue pairs as the client.
func TestServerRepliesInKind(t *testing.T) {
	one := queuePair{QPN: 0x123456, GID: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
	earlier, _ := packed.Append(nil, one)
	later, _ := appendQueuePairs(nil, []queuePair{one, one, one})
	for name, test := range map[string]struct {
		sends []byte
		count int // number at the beginning of the reply; 0 in an earlier copy's
	}{"earlier": {earlier, 0}, "later": {later, 3}} {
		t.Run(name, func(t *testing.T) {
			e, _ := peertest.NewEnd(t, Peer.Jobs[0], false)
			reply := make([]byte, len(test.sends))
			var got error
			ctx, stop := context.WithCancel(t.Context())
			err := peertest.Against(ctx, t, e, false, testkit.Limit, func(c net.Conn) {
				defer stop()
				defer c.Close()
				c.SetDeadline(testkit.Deadline())
				c.Write(test.sends)
				_, got = io.ReadFull(c, reply)
			})
			if got != nil || count(reply) != test.count {
				t.Errorf("the reply is %x, %v; the server: %v", reply, got, err)
			}
		})
	}
}
