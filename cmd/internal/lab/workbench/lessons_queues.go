// Lessons on completions: signaling and full send queues, CQs that overrun, and completion events.

package workbench

import (
	"slices"

	"github.com/rawverbs/rawverbs/qpstate"
)

// The sizes that two lessons begin with: of a send queue, and of a CQ.
const (
	fewSends   = 4
	smallDepth = 4
)

// waking is the text that the lesson events sends.
const waking = "wake up!"

func queues() []Lesson {
	return []Lesson{
		{
			ID:    "signalling",
			Start: script(connect(eitherQuiet, nil, nil), text("client", 0, "8 bytes.")),
			Goals: []Goal{
				{"silent", func(g *glance) bool {
					return g.polledNothing(client) && g.s.hosts[client].held() > 0 && g.holds(server, "8 bytes.")
				}},
				{"full", func(g *glance) bool {
					cq := g.cq(client)
					return g.refused("post_send", "ENOMEM") && g.action.Host == "client" && g.s.hosts[client].held() == fewSends && cq != nil && len(cq.Completions) == 0
				}},
				{"reset", func(g *glance) bool {
					return g.wasReset(client) && g.state(client, 0, qpstate.RTS) && (g.state(server, 0, qpstate.RTR) || g.state(server, 0, qpstate.RTS))
				}},
				{"freed", func(g *glance) bool {
					return g.polled(client, "SUCCESS", opcode("RDMA_WRITE")) && len(g.result.Completions) == 1 && g.result.freed >= fewSends && g.goal("full")
				}},
			},
			Answers: 3, Right: 2,
			Solution: script(post(writes(1, fewSends)...), run, poll("client"), post(writes(5, 1)...), both(renewed), both(toRTR), both(toRTS),
				post(signalLast(writes(6, fewSends))...), run, poll("client")),
		},
		{
			ID:    "overrun",
			Start: connect(smallCQ, nil, nil),
			Goals: []Goal{
				{"full", func(g *glance) bool {
					cq := g.cq(client)
					return cq != nil && cq.Depth == smallDepth && len(cq.Completions) == smallDepth && !cq.Overrun
				}},
				{"err", func(g *glance) bool { return g.logged("IBV_EVENT_CQ_ERR") && g.state(client, 0, qpstate.Error) }},
				{"lost", func(g *glance) bool {
					cq := g.cq(client)
					return g.polled(client, "SUCCESS", nil) && cq != nil && cq.Overrun && len(cq.Completions) == 0
				}},
				{"deep", func(g *glance) bool { return g.deepEnough(client, 2*smallDepth) }},
			},
			Answers: 3, Right: 2,
			Solution: overrun(),
		},
		{
			ID: "events",
			Start: script(connected(nil, nil), text("client", 0, waking),
				postRecv("server", theQP, WR{ID: 1, SGL: sge(0, 64)}, WR{ID: 2, SGL: sge(64, 64)}, WR{ID: 3, SGL: sge(128, 64)}, WR{ID: 4, SGL: sge(192, 64)})),
			Goals: []Goal{
				{"asleep", func(g *glance) bool {
					return g.slept(server) && len(g.cq(server).Completions) > 0 && g.cq(server).Armed == "any"
				}},
				{"found", func(g *glance) bool {
					return g.polled(server, "SUCCESS", opcode("RECV")) && g.cq(server).Armed == "any" && g.holds(server, waking)
				}},
				{"event", func(g *glance) bool { return g.waited(server) && !g.result.Asleep }},
				{"ready", func(g *glance) bool {
					cq := g.cq(server)
					return g.slept(server) && cq.Armed == "any" && len(cq.Completions)+cq.Events+cq.Unacked == 0 && g.goal("event")
				}},
			},
			Answers: 3, Right: 2,
			Solution: script(send(1, 8), run, arm("server"), wait("server"), poll("server"), send(2, 8), run, wait("server"),
				onCQ("ack_cq_events", "server"), arm("server"), poll("server"), poll("server"), wait("server")),
		},
	}
}

// eitherQuiet makes a short send queue at the client, which signals only what asks for it.
func eitherQuiet(host string) []Action {
	if host == "client" {
		return quiet(host, fewSends)
	}
	return objects(host)
}

// renewed moves a queue pair through RESET to INIT, and tells the peer about it.
func renewed(host string) []Action {
	return script(reset(host), toInit(host), tell(host))
}

// signalLast signals the last of some requests.
func signalLast(wrs []WR) []WR {
	wrs[len(wrs)-1].Flags = []string{"SIGNALED"}
	return wrs
}

// smallCQ makes a CQ at the client that is too small for its queue pair.
func smallCQ(host string) []Action {
	made := objects(host)
	if i := slices.IndexFunc(made, func(a Action) bool { return a.Do == "create_cq" }); host == "client" {
		made[i].Depth = smallDepth
	}
	return made
}

// overrun overruns the client's CQ, and replaces it and its queue pair.
func overrun() []Action {
	qp := makeQP("client", theQP, "RC")
	qp[0].SendCQ, qp[0].RecvCQ = "deep", "deep"
	return script(post(writes(1, smallDepth)...), run, post(writes(5, 1)...), run, poll("client"), closing("client", theQP), closing("client", theCQ),
		one(&Action{Do: "create_cq", Host: "client", Name: "deep", Depth: 16}), qp, reset("server"), both(toInit), both(tell),
		both(toRTR), both(toRTS), post(writes(6, 2*smallDepth)...), run)
}

// waited reports whether the action was a wait of a host for an event, slept whether the wait would sleep.
func (g *glance) waited(host int) bool { return g.at("get_cq_event", host) }
func (g *glance) slept(host int) bool  { return g.waited(host) && g.result.Asleep }

// cq returns the CQ of a host that the last action is about, or else its first one; nil: it has none.
func (g *glance) cq(host int) *CQView {
	var first *CQView
	for _, o := range g.open(host, "CQ") {
		v := g.s.hosts[host].objectView(o)
		if o.name == g.action.Name {
			return v.CQ
		}
		if first == nil {
			first = v.CQ
		}
	}
	return first
}

// deepEnough reports whether a CQ of a host holds n successes, and has an entry for each request of its queue pairs.
func (g *glance) deepEnough(host, n int) bool {
	return slices.ContainsFunc(g.open(host, "CQ"), func(o *object) bool {
		need := uint32(0)
		for _, qp := range g.qps(host) {
			if qp.qp.SendCQ() == o.cq {
				need += qp.qp.Cap().MaxSendWR
			}
			if qp.qp.RecvCQ() == o.cq {
				need += qp.qp.Cap().MaxRecvWR
			}
		}
		v := g.s.hosts[host].objectView(o).CQ
		good := 0
		for _, c := range v.Completions {
			if c.Status == "SUCCESS" {
				good++
			}
		}
		return !v.Overrun && good >= n && v.Depth >= int(need)
	})
}
