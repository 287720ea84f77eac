//go:build !rdma

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var wireDocument = filepath.Join("..", "..", "docs", "on-the-wire.md")

// The other opcodes of a SEND.
const (
	sendFirst  = 0x00
	sendMiddle = 0x01
	sendLast   = 0x02
)

// TestPCAP checks that --pcap writes every packet as on the wire, the same at both ends, and
// that the packets match the logged events.
func TestPCAP(t *testing.T) {
	const mtu = 1024
	for _, size := range []int{15, 10 * mtu, 100_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			noLeak(t)
			files := [2]string{filepath.Join(t.TempDir(), "client.pcap"), filepath.Join(t.TempDir(), "server.pcap")}
			s := serve(t, "--once", "--pcap", files[1])
			c := s.client(t, "--size", "200000", "--mtu", fmt.Sprint(mtu), "--text", strings.Repeat("x", size), "--pcap", files[0])
			c.succeeds()
			s.succeeds()
			captures := [2][]frame{readCapture(t, files[0]), readCapture(t, files[1])}
			for i, end := range []*process{c, s.process} {
				if end.find("capture.begun", "file", files[i]) == nil {
					t.Errorf("%s does not log its capture", end.name)
				}
				checkSent(t, end, captures[i], mtu)
			}
			// Loopback loses no packets. The two ends may see them in different orders, and on a busy
			// host packets are sent again, with AckReq, and probes. Those and their ACKs may come when the
			// other end has gone.
			if a, b := distinct(captures[0]), distinct(captures[1]); !slices.Equal(a, b) {
				t.Errorf("the client's capture has %d packets, the server's %d, and they differ", len(a), len(b))
			}
		})
	}
}

// checkSent compares the packets from an end to its peer's queue pair with the end's log. The
// SEND must begin at SQ_PSN, and the peer's SEND must be acknowledged.
func checkSent(t *testing.T, end *process, frames []frame, mtu int) {
	t.Helper()
	first, dest := number(t, transitionValue(end, "RTS", "SQ_PSN")), number(t, transitionValue(end, "RTR", "DEST_QPN"))
	var sends []frame
	acks := 0
	for _, f := range frames {
		switch {
		case f.dest() != dest:
		case f.opcode() == ack:
			acks++
		case !slices.ContainsFunc(sends, func(g frame) bool { return g.psn() == f.psn() }): // otherwise sent again
			sends = append(sends, f)
		}
	}
	if acks == 0 {
		t.Errorf("%s acknowledged nothing", end.name)
	}
	want := max(1, (int(end.find("message.sent")["bytes"].(float64))+mtu-1)/mtu)
	if len(sends) != want {
		t.Fatalf("%s sent %d packets, want %d: %v", end.name, len(sends), want, sends)
	}
	for i, f := range sends {
		opcode := byte(sendMiddle)
		switch {
		case want == 1:
			opcode = sendOnly
		case i == 0:
			opcode = sendFirst
		case i == want-1:
			opcode = sendLast
		}
		if psn := (first + uint32(i)) & 0xffffff; f.opcode() != opcode || f.psn() != psn {
			t.Errorf("%s, packet %d of the SEND: %v; want opcode %#02x, psn %#06x", end.name, i, f, opcode, psn)
		}
	}
}

func number(t *testing.T, text string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(text, 0, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

// distinct returns the frames other than ACKs and probes as strings, without duplicates. It leaves out AckReq, the
// IP header and the ICRC, because the system sets the identification, which the ICRC covers.
func distinct(frames []frame) []string {
	var all []string
	for _, f := range frames {
		if f.opcode() == ack || f.opcode() == sendOnly && len(f) == ipHeader+udpHeader+bthHeader+icrcSize {
			continue
		}
		f = slices.Clone(f)
		f.bth()[8] &^= 0x80
		all = append(all, string(f[ipHeader:len(f)-icrcSize]))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestWireExercise runs the first exercise of docs/on-the-wire.md, and compares its answer with the packets.
func TestWireExercise(t *testing.T) {
	noLeak(t)
	text, err := os.ReadFile(wireDocument)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []string
	for i := range 300 {
		numbers = append(numbers, strconv.Itoa(i+1))
	}
	file := filepath.Join(t.TempDir(), "x.pcap")
	s := serve(t, "--once")
	s.client(t, "--pcap", file, "--mtu", "256", "--job", "write-read", "--text", strings.Join(numbers, " ")).succeeds()
	s.succeeds()
	ordinals := []string{"first", "second", "third", "fourth", "Last"} // five packets
	var seen []uint32
	var asking []string
	for _, f := range readCapture(t, file) {
		const writeFirst, writeLast, ackReq = 0x06, 0x08, 0x80
		if f.opcode() < writeFirst || f.opcode() > writeLast || slices.Contains(seen, f.psn()) { // sent again
			continue
		}
		if len(seen) == len(ordinals) {
			t.Fatalf("the WRITE has more than %d packets", len(ordinals))
		}
		if f.bth()[8]&ackReq != 0 {
			asking = append(asking, ordinals[len(seen)])
		}
		seen = append(seen, f.psn())
	}
	want := "Five: First, three Middle, Last (256 · 4 + 67 bytes). The " + strings.Join(asking, " and the ") + " ask: "
	if len(seen) != len(ordinals) || !strings.Contains(string(text), want) {
		t.Errorf("%s does not say %q of %d packets", wireDocument, want, len(seen))
	}
}
