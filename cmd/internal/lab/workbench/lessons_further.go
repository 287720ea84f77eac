// Further lessons: atomics, what goes wrong, and the other types of queues.

package workbench

import (
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

func further() []Lesson {
	return []Lesson{
		{
			ID:    "atomics",
			Start: script(connected(nil, nil), text("server", 0, word(10))),
			Goals: []Goal{
				{"add", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("FETCH_ADD")) && g.holds(server, word(15))
				}},
				{"swap", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("COMP_SWAP")) && g.holds(server, word(100))
				}},
				{"aligned", func(g *glance) bool { return g.refused("post_send", "EINVAL") }},
			},
			Answers: 3, Right: 1,
			Solution: script(post(atomic(1, "ATOMIC_FETCH_AND_ADD", 0, 5, 0)), run, poll("client"),
				post(atomic(2, "ATOMIC_CMP_AND_SWP", 0, 15, 100)), run, poll("client"), post(atomic(3, "ATOMIC_FETCH_AND_ADD", 4, 1, 0))),
		},
		{
			ID:    "loss",
			Start: connected(values{"PATH_MTU": 256}, values{"TIMEOUT": 10, "RETRY_CNT": 2}),
			Goals: []Goal{
				{"drop", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool { return p.Fate == "dropped" && p.Why.Opcode == "SEND" })
				}},
				{"timeout", func(g *glance) bool { return g.packet(func(p *PacketView) bool { return p.Why.Again == "timeout" }) }},
				{"sent", func(g *glance) bool { return g.polled(client, "SUCCESS", opcode("SEND")) }},
				{"icrc", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool {
						return slices.Contains([]string{simulated.OutcomeIP, simulated.OutcomeUDP, simulated.OutcomeICRC}, p.Outcome)
					})
				}},
				{"exceeded", func(g *glance) bool { return g.polled(client, "RETRY_EXC_ERR", nil) }},
			},
			Answers: 3, Right: 2,
			Solution: script(recv("server", 1, 0, 64), recv("server", 2, 0, 64), send(1, 16), drop(1), run, poll("client"),
				send(2, 16), one(&Action{Do: "corrupt", Packet: 4, Bit: 8 * 42}), step, step, drop(5), step, drop(6), run, poll("client")),
		},
		{
			ID:    "rnr",
			Start: connected(nil, values{"RNR_RETRY": 2}),
			Goals: []Goal{
				{"nak", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool { return p.Why.Kind == "rnr nak" && p.From == "server" })
				}},
				{"sent", func(g *glance) bool { return g.polled(client, "SUCCESS", opcode("SEND")) }},
				{"exceeded", func(g *glance) bool { return g.polled(client, "RNR_RETRY_EXC_ERR", nil) }},
			},
			Answers: 3, Right: 3,
			Solution: script(send(1, 16), step, recv("server", 1, 0, 64), run, poll("client"), send(2, 16), run, poll("client")),
		},
		{
			ID:    "errors",
			Start: script(connected(nil, nil), recv("client", 1, 64, 64), recv("client", 2, 128, 64)),
			Goals: []Goal{
				{"flush", func(g *glance) bool { return g.polled(client, "WR_FLUSH_ERR", nil) }},
				{"reset", func(g *glance) bool { return g.action.Do == "modify_qp" && g.state(client, 0, qpstate.Reset) }},
				{"again", func(g *glance) bool { return g.polled(client, "SUCCESS", opcode("SEND")) && g.wasReset(client) }},
			},
			Answers: 3, Right: 1,
			Solution: script(move("client", theQP, "ERR", nil), poll("client"), both(reset),
				both(toInit), recv("server", 1, 0, 64), both(tell), both(toRTR), both(toRTS), send(1, 16), run, poll("client")),
		},
		{
			ID:    "sqd",
			Start: script(connected(nil, nil), recv("server", 1, 0, 64), recv("server", 2, 64, 64)),
			Goals: []Goal{
				{"sqd", func(g *glance) bool { return g.state(client, 0, qpstate.SQD) && len(g.s.world.InFlight()) > 0 }},
				{"drained", func(g *glance) bool { return g.logged("IBV_EVENT_SQ_DRAINED") }},
				{"waits", func(g *glance) bool {
					return g.action.Do == "post_send" && g.result.Accepted > 0 && g.state(client, 0, qpstate.SQD)
				}},
				{"changed", func(g *glance) bool {
					return g.action.Do == "modify_qp" && g.result.Refused == nil && len(g.action.Mask) > 1 && g.state(client, 0, qpstate.SQD) && slices.Contains(g.action.Mask, "TIMEOUT")
				}},
				{"sent", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("SEND")) && g.state(client, 0, qpstate.RTS) && g.goal("waits")
				}},
			},
			Answers: 3, Right: 2,
			Solution: script(send(1, 16), move("client", theQP, "SQD", values{"EN_SQD_ASYNC_NOTIFY": true}), run, poll("client"), send(2, 16), step,
				move("client", theQP, "SQD", values{"TIMEOUT": 10}), move("client", theQP, "RTS", nil), run, poll("client")),
		},
		{
			ID:    "datagrams",
			Start: unreliable(),
			Goals: []Goal{
				{"lost", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool { return p.Fate == "dropped" && p.Opcode[:2] == "UC" })
				}},
				{"unaware", func(g *glance) bool {
					return g.polled(client, "SUCCESS", func(c *Completion) bool { return c.QP == "uc" }) && g.goal("lost")
				}},
				{"rts", func(g *glance) bool {
					return g.state(client, verbs.UD, qpstate.RTS) && g.state(server, verbs.UD, qpstate.RTR)
				}},
				{"ah", func(g *glance) bool { return g.count(client, "AH") > 0 }},
				{"received", func(g *glance) bool {
					return g.polled(server, "SUCCESS", func(c *Completion) bool { return c.SrcQPN != 0 })
				}},
				{"qkey", func(g *glance) bool {
					return g.packet(func(p *PacketView) bool { return p.Opcode[:2] == "UD" && p.Outcome == "drop_mismatch" })
				}},
			},
			Answers: 3, Right: 3,
			Solution: datagrams(),
		},
		{
			ID:    "srq",
			Start: script(both(func(h string) []Action { return parents(h, bufSize) }), makeQP("client", "one", "RC"), makeQP("client", "two", "RC")),
			Goals: []Goal{
				{"srq", func(g *glance) bool { return g.count(server, "SRQ") > 0 }},
				{"recv", func(g *glance) bool { return g.srqHolds() >= 3 }},
				{"qps", func(g *glance) bool { return g.srqUsers() > 1 }},
				{"limit", func(g *glance) bool { return g.logged("IBV_EVENT_SRQ_LIMIT_REACHED") }},
				{"received", func(g *glance) bool { return g.srqReceived() }},
			},
			Answers: 3, Right: 2,
			Solution: shared(),
		},
	}
}

// word is a number as the 8 bytes of an atomic.
func word(n byte) string { return string(n) + "\x00\x00\x00\x00\x00\x00\x00" }

func atomic(id Num, opcode string, off int, compareAdd, swap Num) WR {
	w := onRegion(id, opcode, off, 8)
	w.SGL = sge(64, 8)
	w.CompareAdd, w.Swap = compareAdd, swap
	return w
}

// lastReset returns the number of the last action that moved a host's queue pair to RESET, or -1.
func (g *glance) lastReset(host int) int {
	for i := range slices.Backward(g.s.actions) {
		a := &g.s.actions[i]
		if a.Do == "modify_qp" && a.Host == g.s.hosts[host].side.String() && g.s.results[i].Refused == nil && string(a.Attr["STATE"]) == `"RESET"` && slices.Contains(a.Mask, "STATE") {
			return i
		}
	}
	return -1
}

// wasReset reports whether a host's queue pair was moved to RESET in this session.
func (g *glance) wasReset(host int) bool { return g.lastReset(host) >= 0 }

// srqUsers returns how many of the server's queue pairs use an SRQ.
func (g *glance) srqUsers() (n int) {
	for _, o := range g.qps(server) {
		if o.qp.SRQ() != nil {
			n++
		}
	}
	return n
}

// srqHolds returns how many receives the server's SRQs hold.
func (g *glance) srqHolds() (n int) {
	for _, o := range g.open(server, "SRQ") {
		n += len(g.s.world.InspectSRQ(g.s.hosts[server].side, o.srq))
	}
	return n
}

// srqReceived reports whether the action polled receives of two queue pairs of the server that use
// an SRQ.
func (g *glance) srqReceived() bool {
	from := map[uint32]bool{}
	if g.action.Do == "poll_cq" && g.action.Host == "server" && g.srqUsers() > 1 {
		for _, c := range g.result.Completions {
			if c.Status == "SUCCESS" && c.Opcode == "RECV" {
				from[c.QPN] = true
			}
		}
	}
	return len(from) > 1
}

// unreliable is two connected UC queue pairs, uc, and two UD ones, ud, in RESET.
func unreliable() []Action {
	return script(both(func(h string) []Action {
		return script(parents(h, bufSize), makeQP(h, "uc", "UC"), makeQP(h, "ud", "UD"), move(h, "uc", "INIT", initRC))
	}), both(func(h string) []Action { return exchange(h, "uc", "") }),
		both(func(h string) []Action { return script(move(h, "uc", "RTR", rtrUC), move(h, "uc", "RTS", rtsUC)) }))
}

func datagrams() []Action {
	datagram := func(id Num, qkey *Num) []Action {
		return postTo("ud", WR{ID: id, Opcode: "SEND", SGL: sge(0, 16), AH: theAH, RemoteQP: "ud", RemoteQKey: qkey})
	}
	wrong := Num(0x22222222)
	return script(postRecv("server", "uc", WR{ID: 1, SGL: sge(0, 64)}), postTo("uc", WR{ID: 1, Opcode: "SEND", SGL: sge(0, 16)}), drop(1), poll("client"),
		both(func(h string) []Action { return script(move(h, "ud", "INIT", initUD), move(h, "ud", "RTR", nil)) }),
		postRecv("server", "ud", WR{ID: 2, SGL: sge(64, 40+64)}), exchange("server", "ud", ""), move("client", "ud", "RTS", rtsUD),
		one(&Action{Do: "create_ah", Host: "client", Name: theAH, PD: thePD, AV: &AV{GID: "peer"}, Peer: "ud"}),
		datagram(2, nil), run, poll("server"), datagram(3, &wrong), run)
}

func shared() []Action {
	limit := uint32(2)
	qps := func(part func(qp string) []Action) []Action { return script(part("one"), part("two")) }
	theirs := func(qp string) []Action {
		a := makeQP("server", qp, "RC")
		a[0].SRQ = theSRQ
		return script(a, both(func(h string) []Action { return script(move(h, qp, "INIT", initRC), exchange(h, qp, "")) }),
			both(func(h string) []Action {
				rtr := move(h, qp, "RTR", rtrRC)
				rtr[0].Peer = qp
				return script(rtr, move(h, qp, "RTS", rtsRC))
			}))
	}
	return script(one(&Action{Do: "create_srq", Host: "server", Name: theSRQ, PD: thePD, MaxWR: 4, MaxSGE: 1}),
		postRecv("server", theSRQ, WR{ID: 1, SGL: sge(0, 64)}, WR{ID: 2, SGL: sge(64, 64)}, WR{ID: 3, SGL: sge(128, 64)}),
		one(&Action{Do: "modify_srq", Host: "server", Name: theSRQ, Limit: &limit}), qps(theirs),
		qps(func(qp string) []Action { return postTo(qp, WR{ID: 1, Opcode: "SEND", SGL: sge(0, 16)}) }), run, poll("server"))
}
