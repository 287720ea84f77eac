package workbench

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestSelectiveRepeat loses the third of five packets, with each setting of the two hosts: how many packets the message
// costs, how many of these are sent again, and how many the server has already. The reasons are in softroce/simulated.
func TestSelectiveRepeat(t *testing.T) {
	for _, test := range []struct {
		hosts                    []string
		packets, again, repeated int
	}{
		{nil, 10, 3, 0},
		{[]string{"server"}, 12, 3, 2},
		{[]string{"client"}, 11, 3, 0},
		{[]string{"client", "server"}, 8, 1, 0},
	} {
		t.Run(fmt.Sprint(test.hosts), func(t *testing.T) {
			actions := gapStart()
			for _, h := range test.hosts {
				actions = append(actions, keeping(h)...)
			}
			s := played(t, Setup{}, script(actions, send(2, fivePackets), drop(5), run, poll("client")))
			g := &glance{s: s}
			if m := g.message(); m.again != test.again || m.duplicates != test.repeated {
				t.Errorf("%d packets were sent again, %d of them duplicates, want %d and %d", m.again, m.duplicates, test.again, test.repeated)
			}
			if n := len(s.world.Packets()) - 2; n != test.packets {
				t.Errorf("%d packets, want %d", n, test.packets)
			}
		})
	}
}

// TestProbe loses the last packet of a message: with selective repeat the client asks before its timeout.
func TestProbe(t *testing.T) {
	s := played(t, Setup{}, script(gapStart(), keeping("client"), keeping("server"), send(2, fivePackets), drop(7), run, poll("client")))
	all := s.Snapshot(0)
	if probe := all.Packets[7]; probe.Why.Again != "probe" || !strings.HasPrefix(probe.Why.Text, "a tail-loss probe") || all.Now > 67e6 {
		t.Errorf("at %d ns, after %+v", all.Now, probe)
	}
}

// TestMark marks a packet: the client's window is cut, and the packet's checksums are right. A packet that no switch may mark is refused.
func TestMark(t *testing.T) {
	mark := one(&Action{Do: "mark", Packet: 3})
	before := script(connected(nil, nil), post(onRegion(1, "RDMA_WRITE", 0, 8)), run, post(onRegion(2, "RDMA_WRITE", 0, 8)))
	for _, test := range []struct {
		actions []Action
		window  int64
	}{
		{run, 64},
		{script(mark, run), 32},
		{script(mark, mark, run), 32}, // a second switch
		{script(mark, one(&Action{Do: "duplicate", Packet: 3}), run), 32},
	} {
		s := played(t, Setup{}, script(before, test.actions))
		g := &glance{s: s}
		p := s.world.Packets()[2]
		sum := uint32(0)
		for i := 0; i < 20; i += 2 {
			sum += uint32(p.Frame[i])<<8 | uint32(p.Frame[i+1])
		}
		if g.window() != test.window || uint16(sum+sum>>16) != 0xffff {
			t.Errorf("the window is %d, want %d; the packet's header has the sum %#x", g.window(), test.window, sum)
		}
	}
	s := played(t, Setup{}, script(before, one(&Action{Do: "corrupt", Packet: 3, Bit: 14}))) // the first bit of ECN
	if _, err := s.Do(mark[0]); err == nil || !strings.Contains(err.Error(), "its ECN field is 0") {
		t.Errorf("a packet that no switch may mark: %v", err)
	}
}

// TestWindowHolds cuts the window to 2½ packets: the view has what may be in flight, which is one packet more than fits.
func TestWindowHolds(t *testing.T) {
	l, _ := findLesson("ecn")
	s := played(t, Setup{Lesson: l.ID}, script(l.Start, marked(2, 3), run, marked(3, 6), run, marked(4, 9), run, post(onRegion(5, "RDMA_WRITE", 0, 12*4096))))
	g := &glance{s: s}
	if in := s.hosts[client].qpView(g.qps(client)[0]).PSN; in.InFlight != 3 || in.Window != 3 {
		t.Errorf("%d packets of at most %d are in flight, want 3 of 3", in.InFlight, in.Window)
	}
}

// TestMovedFrom moves a queue pair out of the state that the device has moved it to: the log has that state, not the program's.
func TestMovedFrom(t *testing.T) {
	l, _ := findLesson("sqe")
	s := played(t, Setup{}, script(l.Start, datagramTo("client", 3, sge(bufSize-16, 64)), move("client", "ud", "RTS", nil)))
	if got := s.log[len(s.log)-1].Message; got != "SQE→RTS" {
		t.Errorf("the log says %s", got)
	}
}

// TestPacedInTime marks a packet of UC: the rate holds others back for a time, and they leave without another action.
func TestPacedInTime(t *testing.T) {
	objects := func(h string) []Action {
		return script(parents(h, maxRegion), makeQP(h, "uc", "UC"), move(h, "uc", "INIT", initRC))
	}
	s := played(t, Setup{}, script(both(objects), both(func(h string) []Action { return exchange(h, "uc", theMR) }),
		both(func(h string) []Action { return script(move(h, "uc", "RTR", rtrUC), move(h, "uc", "RTS", rtsUC)) }),
		postTo("uc", onRegion(1, "RDMA_WRITE", 0, 1024)), one(&Action{Do: "mark", Packet: 1}), run,
		postTo("uc", onRegion(2, "RDMA_WRITE", 0, maxRegion)), run, poll("client")))
	if sends := s.Snapshot(0).Hosts[client].Objects[3].QP.Sends; len(sends) > 0 {
		t.Errorf("%d requests are left", len(sends))
	}
}

// TestSamePackets compares the packets of the mistake that docs/mistakes.md explains one by one with those that rdma_lab makes.
func TestSamePackets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "mistakes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "<!-- begin capture")
	block, _, _ = strings.Cut(block, "<!-- end -->")
	var want, got []string
	for _, m := range regexp.MustCompile(`(?m)^ +\d+  (client|switch) → \S+  (0x\w+)  (.*)`).FindAllStringSubmatch(block, -1) {
		bytes := "0"
		if n := regexp.MustCompile(`(\d+) bytes`).FindStringSubmatch(m[3]); n != nil {
			bytes = n[1]
		}
		want = append(want, fmt.Sprint(m[1] == "client", " ", m[2], " ", bytes, " ", strings.HasSuffix(m[3], "(again)")))
	}
	views := mistakeViews()
	m := views[slices.IndexFunc(views, func(v MistakeView) bool { return v.Name == "lost-packet" })]
	for _, p := range played(t, Setup{}, m.Actions).Snapshot(0).Packets {
		got = append(got, fmt.Sprintf("%v 0x%x %d %v", p.From == "client", p.PSN, p.Bytes, p.Why.Again != ""))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the laboratory's packets are\n%s\nthose of rdma_lab\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
