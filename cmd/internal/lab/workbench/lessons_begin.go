// The first lessons: from objects to the first messages. And the order of all.

package workbench

import (
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/qpstate"
)

// order is the lessons in the order in which the page offers them.
var order = []string{
	"objects", "init", "exchange", "rtr", "send",
	"signalling", "overrun", "events",
	"rdma", "immediate", "atomics",
	"order", "windows",
	"loss", "gap", "stale",
	"rnr", "errors", "sqd",
	"datagrams", "sqe",
	"srq",
	"ecn",
}

// lessons returns all lessons in their order.
var lessons = sync.OnceValue(func() []Lesson {
	all := slices.Concat(beginning(), queues(), ordering(), further(), network())
	slices.SortFunc(all, func(a, b Lesson) int { return slices.Index(order, a.ID) - slices.Index(order, b.ID) })
	return all
})

func beginning() []Lesson {
	return []Lesson{
		{
			ID: "objects",
			Goals: []Goal{
				{"pd", func(g *glance) bool { return g.count(client, "PD") > 0 && g.count(server, "PD") > 0 }},
				{"mr", func(g *glance) bool { return g.count(client, "MR") > 0 && g.count(server, "MR") > 0 }},
				{"cq", func(g *glance) bool { return g.count(client, "CQ") > 0 && g.count(server, "CQ") > 0 }},
				{"qp", func(g *glance) bool { return g.count(client, "QP") > 0 && g.count(server, "QP") > 0 }},
				{"busy", func(g *glance) bool { return g.refused("close", "EBUSY") }},
			},
			Answers: 3, Right: 2,
			Solution: script(both(objects), closing("client", thePD)),
		},
		{
			ID:    "init",
			Start: both(objects),
			Goals: []Goal{
				{"early", func(g *glance) bool { return g.refused("post_recv", "EINVAL") }},
				{"init", func(g *glance) bool { return g.state(client, 0, qpstate.Init) && g.state(server, 0, qpstate.Init) }},
				{"recv", func(g *glance) bool {
					return g.action.Do == "post_recv" && g.result.Accepted > 0 && g.action.Host == "server" && g.state(server, 0, qpstate.Init)
				}},
			},
			Answers: 3, Right: 1,
			Solution: script(recv("server", 1, 0, 64), both(toInit), recv("server", 1, 0, 64)),
		},
		{
			ID:    "exchange",
			Start: script(both(objects), both(toInit), recv("server", 1, 0, 64)),
			Goals: []Goal{
				{"client", func(g *glance) bool { return len(g.s.hosts[server].told) > 0 }},
				{"server", func(g *glance) bool { return len(g.s.hosts[client].told) > 0 }},
				{"region", func(g *glance) bool { return len(g.s.hosts[client].regions) > 0 }},
			},
			Answers: 3, Right: 3,
			Solution: both(tell),
		},
		{
			ID:    "rtr",
			Start: script(both(objects), both(toInit), recv("server", 1, 0, 64), both(tell)),
			Goals: []Goal{
				{"missing", func(g *glance) bool {
					return g.refused("modify_qp", "EINVAL") && g.result.Refused.Transition != nil && len(g.result.Refused.Transition.Missing) > 0
				}},
				{"illegal", func(g *glance) bool {
					return g.refused("modify_qp", "EINVAL") && g.result.Refused.Transition != nil && len(g.result.Refused.Transition.Illegal) > 0
				}},
				{"rtr", func(g *glance) bool { return g.state(client, 0, qpstate.RTR) && g.state(server, 0, qpstate.RTR) }},
			},
			Answers: 4, Right: 2,
			Solution: script(move("client", theQP, "RTR", rtrUC), move("client", theQP, "RTR", rtrRC.changed(values{"PORT": 1})), both(toRTR)),
		},
		{
			ID:    "send",
			Start: script(both(objects), both(toInit), recv("server", 1, 64, 64), both(tell), both(toRTR), text("client", 0, hello)),
			Goals: []Goal{
				{"rts", func(g *glance) bool { return g.state(client, 0, qpstate.RTS) }},
				{"sent", func(g *glance) bool { return g.polled(client, "SUCCESS", opcode("SEND")) && g.holds(server, hello) }},
				{"received", func(g *glance) bool {
					return g.holds(server, hello) && g.polled(server, "SUCCESS", func(c *Completion) bool { return c.Opcode == "RECV" && int(c.ByteLen) == len(hello) })
				}},
			},
			Answers: 3, Right: 1,
			Solution: script(toRTS("client"), send(1, 13), run, poll("client"), poll("server")),
		},
		{
			ID:    "rdma",
			Start: script(connected(nil, nil), text("client", 0, written), text("server", 128, stored)),
			Goals: []Goal{
				{"write", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("RDMA_WRITE")) && g.holds(server, written)
				}},
				{"read", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("RDMA_READ")) && g.holds(client, stored)
				}},
				{"rkey", func(g *glance) bool { return g.polled(client, "REM_ACCESS_ERR", nil) }},
			},
			Answers: 3, Right: 2,
			Solution: script(post(onRegion(1, "RDMA_WRITE", 0, 21)), run, poll("client"),
				post(WR{ID: 2, Opcode: "RDMA_READ", SGL: sge(64, 18), Remote: &Remote{MR: theMR, Offset: 128}}), run, poll("client"),
				wrongWrite(3), run, poll("client")),
		},
		{
			ID:    "immediate",
			Start: script(connected(nil, nil), text("client", 0, "block 7")),
			Goals: []Goal{
				{"send", func(g *glance) bool {
					return g.polled(server, "SUCCESS", func(c *Completion) bool { return c.Opcode == "RECV" && c.Imm != nil })
				}},
				{"write", func(g *glance) bool { return g.polled(server, "SUCCESS", opcode("RECV_RDMA_WITH_IMM")) }},
			},
			Answers: 3, Right: 3,
			Solution: script(recv("server", 1, 0, 64), recv("server", 2, 0, 0), post(WR{ID: 1, Opcode: "SEND_WITH_IMM", SGL: sge(0, 7), Imm: 7}), run, poll("server"),
				post(WR{ID: 2, Opcode: "RDMA_WRITE_WITH_IMM", SGL: sge(0, 7), Imm: 8, Remote: &Remote{MR: theMR, Offset: 128}}), run, poll("server")),
		},
	}
}

// The texts of the lessons send and rdma.
const (
	hello   = "hello, server"
	written = "written by the client"
	stored  = "kept by the server"
)

// wrongKey added to a key gives a key of no region: the upper 24 bits of a key are an index.
const wrongKey = 0x100
