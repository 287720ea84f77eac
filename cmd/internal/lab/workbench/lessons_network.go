// Lessons on what the network does: a gap, a stale packet, a mark. And the error of a send queue that has no peer to tell.

package workbench

import (
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

func network() []Lesson {
	return []Lesson{
		{
			ID:    "gap",
			Start: gapStart(),
			Goals: []Goal{
				{"nak", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool {
						return p.Why.Kind == "nak" && p.Fate == "delivered" && p.PSN == g.message().lost && p.From == "server"
					})
				}},
				{"back", func(g *glance) bool { return g.repaired() && g.keeping() == "" && g.message().again == 3 }},
				{"alone", func(g *glance) bool {
					return g.repaired() && g.keeping() == "server" && g.message().again == 3 && g.message().duplicates > 0
				}},
				{"keep", func(g *glance) bool { return g.repaired() && g.keeping() == "client server" && g.message().again == 1 }},
			},
			Answers: 3, Right: 2,
			Solution: script(send(2, fivePackets), drop(5), run, poll("client"), keeping("server"), send(3, fivePackets), drop(15), run, poll("client"),
				keeping("client"), send(4, fivePackets), drop(27), run, poll("client")),
		},
		{
			ID:    "stale",
			Start: script(connected(nil, nil), text("client", 0, oldOrder)),
			Goals: []Goal{
				{"again", func(g *glance) bool {
					return g.state(client, verbs.RC, qpstate.RTS) && g.state(server, verbs.RC, qpstate.RTS) && g.staleInFlight()
				}},
				{"taken", func(g *glance) bool {
					return g.polled(server, "SUCCESS", opcode("RECV")) && g.holds(server, oldOrder) && g.staleTaken()
				}},
				{"swallowed", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("SEND")) && g.staleTaken() && g.fresh(func(p *PacketView) bool { return p.Outcome == "duplicates" })
				}},
				{"other", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool {
						return g.stale(p) && p.Fate == "delivered" && (p.Outcome == "duplicates" || p.Outcome == "sequence_naks") && g.far(p.PSN)
					})
				}},
				{"sent", func(g *glance) bool {
					return g.goal("other") && g.polled(server, "SUCCESS", opcode("RECV")) && g.holds(server, newOrder)
				}},
			},
			Answers: 3, Right: 3,
			Solution: staleSolution(),
		},
		{
			ID:    "sqe",
			Start: script(both(func(h string) []Action { return script(parents(h, bufSize), makeQP(h, "ud", "UD")) }), both(udReady), both(udPeer)),
			Goals: []Goal{
				{"sqe", func(g *glance) bool {
					return g.state(client, verbs.UD, qpstate.SQE) && g.polled(client, "LOC_PROT_ERR", nil)
				}},
				{"flush", func(g *glance) bool {
					return g.state(client, verbs.UD, qpstate.SQE) && g.polled(client, "WR_FLUSH_ERR", func(c *Completion) bool { return g.posted(c.ID) > g.broke() })
				}},
				{"receive", func(g *glance) bool {
					return g.state(client, verbs.UD, qpstate.SQE) && g.polled(client, "SUCCESS", func(c *Completion) bool { return c.Opcode == "RECV" && g.arrived() > g.broke() })
				}},
				{"back", func(g *glance) bool { return g.moved(client, qpstate.SQE, qpstate.RTS) }},
				{"sent", func(g *glance) bool { return g.goal("back") && g.polled(server, "SUCCESS", opcode("RECV")) }},
			},
			Answers: 3, Right: 2,
			Solution: script(datagramTo("client", 3, sge(bufSize-16, 64)), poll("client"), datagramTo("client", 4, sge(0, 16)), poll("client"),
				datagramTo("server", 3, sge(0, 16)), run, poll("client"), move("client", "ud", "RTS", nil), datagramTo("client", 5, sge(0, 16)), run, poll("server")),
		},
		{
			ID: "ecn", MTU: 4096, DelayNS: 40000,
			Start: script(connect(func(h string) []Action { return script(parents(h, maxRegion), makeQP(h, theQP, "RC")) }, nil, nil),
				post(onRegion(1, "RDMA_WRITE", 0, 8)), run, poll("client")),
			Goals: []Goal{
				{"mark", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool {
						return p.Marked && p.Fate == "delivered" && p.Outcome == "congestion_marks" && p.From == "client" && p.Request
					})
				}},
				{"cnp", func(g *glance) bool { return g.noticed("server") && g.window() <= smallWindow }},
				{"waits", func(g *glance) bool { return g.goal("cnp") && g.waitsForWindow() }},
				{"grows", func(g *glance) bool {
					return g.goal("waits") && g.polled(client, "SUCCESS", nil) && g.window() > smallWindow
				}},
				{"ack", func(g *glance) bool { return g.noticed("client") }},
			},
			Answers: 3, Right: 1,
			Solution: script(marked(2, 3), run, marked(3, 6), run, post(onRegion(4, "RDMA_WRITE", 0, 12*4096)), run, poll("client"),
				post(onRegion(5, "RDMA_WRITE", 0, 4096)), step, one(&Action{Do: "mark", Packet: 34}), run),
		},
	}
}

// fivePackets is the length of a message in five packets at the path MTU of the lesson gap.
const fivePackets = 5 * 256

// gapStart is two queue pairs whose peers have answered once: before that, a device sends four packets at most.
func gapStart() []Action {
	objects := func(h string) []Action { return script(parents(h, fivePackets), makeQP(h, theQP, "RC")) }
	var recvs []WR
	for id := range Num(8) {
		recvs = append(recvs, WR{ID: id + 1, SGL: sge(0, fivePackets)})
	}
	return script(connect(objects, values{"PATH_MTU": 256}, nil), text("client", 0, "one"), text("client", 256, "two"), text("client", 512, "three"),
		text("client", 768, "four"), text("client", 1024, "five"), post(onRegion(1, "RDMA_WRITE", 0, 3)), run, poll("client"),
		postRecv("server", theQP, recvs...))
}

func keeping(host string) []Action { return one(&Action{Do: "selective_repeat", Host: host, On: true}) }

// keeping returns the hosts with selective repeat.
func (g *glance) keeping() string {
	switch c, s := g.s.world.SelectiveRepeat(simulated.Client), g.s.world.SelectiveRepeat(simulated.Server); {
	case c && s:
		return "client server"
	case c:
		return "client"
	case s:
		return "server"
	}
	return ""
}

// gapMessage is what became of the packets of a message.
type gapMessage struct {
	lost              uint32 // the PSN of its third packet, if that was dropped when it was sent first
	again, duplicates int    // packets that were sent again, and those of them that had been served
}

// message returns what became of the client's newest message of five packets.
func (g *glance) message() (m gapMessage) {
	for _, p := range slices.Backward(g.s.world.Packets()) {
		v := g.s.packetView(p)
		switch {
		case v.From != "client" || v.Why.Count != 5:
		case v.Why.Again != "":
			m.again++
			if v.Outcome == "duplicates" {
				m.duplicates++
			}
		case v.Why.Index == 3 && v.Fate == "dropped":
			m.lost = v.PSN
		case v.Why.Index == 1:
			return m
		}
	}
	return m
}

// repaired reports whether the action polled the success of a message at the client whose third packet was lost.
func (g *glance) repaired() bool { return g.polled(client, "SUCCESS", nil) && g.message().lost != 0 }

// The texts of the lesson stale.
const (
	oldOrder = "the old order"
	newOrder = "the new order"
)

func staleSolution() []Action {
	again := script(both(reset), both(toInit))
	up := script(both(toRTR), both(toRTS))
	late := func(packet int) []Action { return one(&Action{Do: "delay", Packet: packet, NS: 50000}) }
	psn := uint32(0x7a31c5)
	return script(send(1, 13), late(1), again, up, recv("server", 1, 0, 64), run, poll("server"), text("client", 0, newOrder), send(2, 13), run, poll("client"),
		send(3, 13), late(5), again, both(func(h string) []Action { return one(&Action{Do: "exchange", Host: h, Name: theQP, PSN: &psn}) }), up,
		recv("server", 2, 64, 64), run, send(4, 13), run, poll("server"))
}

// stale reports whether the client sent a packet before both queue pairs were moved to RESET the last time.
func (g *glance) stale(p *PacketView) bool {
	return p.From == "client" && p.Request && p.Action < min(g.lastReset(client), g.lastReset(server))
}

// staleInFlight reports whether a stale packet is on the wire, and has the number that the server expects.
func (g *glance) staleInFlight() bool {
	for _, p := range g.s.world.InFlight() {
		v := g.s.packetView(p)
		for _, o := range g.qps(server) {
			in, _ := g.s.world.InspectQP(simulated.Server, o.qp)
			if g.stale(&v) && psn(in.Expected) == v.PSN {
				return true
			}
		}
	}
	return false
}

// far reports whether the server expects a number that is far from a packet's.
func (g *glance) far(number uint32) bool {
	return slices.ContainsFunc(g.qps(server), func(o *object) bool {
		in, _ := g.s.world.InspectQP(simulated.Server, o.qp)
		ahead := (number - psn(in.Expected)) & maxPSN
		return min(ahead, maxPSN+1-ahead) > 0xff
	})
}

// staleTaken reports whether the server has served a stale packet as one of the present connection.
func (g *glance) staleTaken() bool {
	return slices.ContainsFunc(g.s.world.Packets(), func(p *simulated.Packet) bool {
		v := g.s.packetView(p)
		return g.stale(&v) && v.Fate == "delivered" && v.Outcome == "" && g.s.touched[p.ID-1]-1 > max(g.lastReset(client), g.lastReset(server))
	})
}

// fresh reports whether a packet of the client's present connection is as asked.
func (g *glance) fresh(is func(*PacketView) bool) bool {
	return slices.ContainsFunc(g.s.world.Packets(), func(p *simulated.Packet) bool {
		v := g.s.packetView(p)
		return v.From == "client" && v.Request && v.Action > g.lastReset(client) && is(&v)
	})
}

// udReady moves a host's queue pair ud to RTS, with two receives posted.
func udReady(h string) []Action {
	return script(move(h, "ud", "INIT", initUD), move(h, "ud", "RTR", nil), move(h, "ud", "RTS", rtsUD),
		postRecv(h, "ud", WR{ID: 1, SGL: sge(0, 40+64)}, WR{ID: 2, SGL: sge(128, 40+64)}))
}

// udPeer lets a host tell the peer its queue pair ud, and makes the peer an address handle.
func udPeer(h string) []Action {
	peer := map[string]string{"client": "server", "server": "client"}[h]
	return script(exchange(h, "ud", ""), one(&Action{Do: "create_ah", Host: peer, Name: theAH, PD: thePD, AV: &AV{GID: "peer"}, Peer: "ud"}))
}

func datagramTo(from string, id Num, sgl []SGE) []Action {
	return postAt(from, "ud", WR{ID: id, Opcode: "SEND", SGL: sgl, AH: theAH, RemoteQP: "ud"})
}

// posted returns the number of the action that posted a send of the client, or -1.
func (g *glance) posted(id Num) int {
	for i := range slices.Backward(g.s.actions) {
		a := &g.s.actions[i]
		if a.Do == "post_send" && a.Host == "client" && slices.ContainsFunc(a.WRs, func(w WR) bool { return w.ID == id }) {
			return i
		}
	}
	return -1
}

// broke returns the number of the action that posted the client's newest send with LOC_PROT_ERR.
func (g *glance) broke() int {
	for i, r := range slices.Backward(g.s.results) {
		for _, c := range r.Completions {
			if c.Status == "LOC_PROT_ERR" && g.s.actions[i].Host == "client" {
				return g.posted(c.ID)
			}
		}
	}
	return len(g.s.actions)
}

// arrived returns the number of the action in which the server's newest datagram reached the client's queue pair, or -1.
func (g *glance) arrived() int {
	for i, p := range slices.Backward(g.s.world.Packets()) {
		if p.From == simulated.Server && p.Fate == simulated.Delivered && p.Outcome == "" {
			return g.s.touched[i] - 1
		}
	}
	return -1
}

// moved reports whether the action moved a queue pair of a host from a state to another.
func (g *glance) moved(host int, from, to qpstate.State) bool {
	return g.action.Do == "modify_qp" && g.state(host, 0, to) &&
		slices.ContainsFunc(g.qps(host), func(o *object) bool { return o.before != nil && o.before.State == from })
}

// marked is a WRITE of one packet, which is then marked.
func marked(id Num, packet int) []Action {
	return script(post(onRegion(id, "RDMA_WRITE", 0, 4096)), one(&Action{Do: "mark", Packet: packet}))
}

// smallWindow is what the lesson ecn calls a small window, in packets.
const smallWindow = 4

// window returns the window of the client's queue pair, in packets.
func (g *glance) window() int64 {
	for _, o := range g.qps(client) {
		in, _ := g.s.world.InspectQP(simulated.Client, o.qp)
		return in.Window
	}
	return 0
}

// waitsForWindow reports whether a request of the client has packets left that the window holds back.
func (g *glance) waitsForWindow() bool {
	for _, o := range g.qps(client) {
		v := g.s.hosts[client].qpView(o)
		return v.PSN.InFlight >= v.PSN.Window && slices.ContainsFunc(v.Sends, func(w SendView) bool { return w.Started && w.Sent < w.Packets })
	}
	return false
}

// noticed reports whether a CNP of a host has arrived.
func (g *glance) noticed(from string) bool {
	return g.packet(func(p *PacketView) bool { return p.Why.Kind == "cnp" && p.From == from && p.Fate == "delivered" })
}
