// Lessons on order and access: what RC orders and what FENCE is for, and memory windows.

package workbench

import (
	"bytes"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// The texts of the lesson order, 9 bytes each, and where the client puts its copies at the server.
const (
	ownNote  = "client: 1"
	oldPrice = "old price"
	newPrice = "new price"
	lowPrice = "low price"
	noteAt   = 192
	copyAt   = 128
)

// The window of the lesson windows, and what goes through it.
const (
	theMW     = "mw"
	windowAt  = 128
	windowLen = 64
	windowed  = "through the window"
)

func ordering() []Lesson {
	return []Lesson{
		{
			ID:    "order",
			Start: script(connected(nil, nil), text("client", 0, oldPrice), text("client", 64, ownNote), text("server", 0, newPrice), text("server", 32, lowPrice)),
			Goals: []Goal{
				{"kept", func(g *glance) bool { return g.completed("RDMA_WRITE", "RDMA_READ") && g.copies(client, ownNote) > 1 }},
				{"stale", func(g *glance) bool {
					return g.completed("RDMA_READ", "RDMA_WRITE") && g.copies(server, oldPrice) > 0 && g.copies(client, newPrice) > 0 && g.copies(client, oldPrice) == 0
				}},
				{"waits", func(g *glance) bool { return g.fenceWaits() }},
				{"fresh", func(g *glance) bool {
					return g.completed("RDMA_READ", "RDMA_WRITE") && g.goal("waits") && g.copies(client, lowPrice) > 0 && g.copies(server, lowPrice) > 1
				}},
			},
			Answers: 3, Right: 2,
			Solution: script(post(carry(1, "RDMA_WRITE", 64, noteAt), carry(2, "RDMA_READ", 96, noteAt)), run, poll("client"),
				post(carry(3, "RDMA_READ", 0, 0), carry(4, "RDMA_WRITE", 0, copyAt)), run, poll("client"),
				post(carry(5, "RDMA_READ", 0, 32), carry(6, "RDMA_WRITE", 0, copyAt, "FENCE")), run, poll("client")),
		},
		{
			ID: "windows",
			Start: script(connectTelling(windowable, func(h string) []Action { return exchange(h, theQP, "") }, nil, nil), text("client", 0, windowed),
				postRecv("server", theQP, WR{ID: 1, SGL: sge(0, 32)}, WR{ID: 2, SGL: sge(32, 32)})),
			Goals: []Goal{
				{"bind", func(g *glance) bool { return g.polled(server, "SUCCESS", opcode("BIND_MW")) && g.windows() > 0 }},
				{"write", func(g *glance) bool {
					return g.polled(client, "SUCCESS", func(c *Completion) bool { return c.Opcode == "RDMA_WRITE" && g.byWindow(c.ID) }) && g.holds(server, windowed)
				}},
				{"inv", func(g *glance) bool {
					return g.polled(server, "SUCCESS", func(c *Completion) bool { return c.RKey != nil }) && g.windows() == 0
				}},
				{"local", func(g *glance) bool { return g.polled(server, "SUCCESS", opcode("LOCAL_INV")) && g.windows() == 0 }},
				{"ended", func(g *glance) bool {
					return g.polled(client, "REM_ACCESS_ERR", func(c *Completion) bool { return g.byWindow(c.ID) && strings.HasPrefix(c.Check, simulated.NoRegion) })
				}},
			},
			Answers: 3, Right: 2,
			Solution: script(one(&Action{Do: "alloc_mw", Host: "server", Name: theMW, PD: thePD, Type: "2"}), bindMW(3), poll("server"),
				exchange("server", "", theMW), post(throughWindow(1)), run, poll("client"),
				post(WR{ID: 2, Opcode: "SEND_WITH_INV", SGL: sge(0, 4), Invalidate: &Remote{MR: theMW}}), run, poll("client"), poll("server"),
				bindMW(4), poll("server"), postAt("server", theQP, WR{ID: 5, Opcode: "LOCAL_INV", MW: theMW}), poll("server"),
				post(throughWindow(3)), run, poll("client")),
		},
	}
}

// carry is a request for 9 bytes between two offsets.
func carry(id Num, opcode string, own, theirs int, flags ...string) WR {
	return WR{ID: id, Opcode: opcode, Flags: flags, SGL: sge(own, uint32(len(oldPrice))), Remote: &Remote{MR: theMR, Offset: theirs}}
}

// windowable makes objects whose region may have windows.
func windowable(host string) []Action {
	made := objects(host)
	i := slices.IndexFunc(made, func(a Action) bool { return a.Do == "reg_mr" })
	made[i].Access = append(slices.Clone(regionRights), "MW_BIND")
	return made
}

func bindMW(id Num) []Action {
	return postAt("server", theQP, WR{ID: id, Opcode: "BIND_MW", MW: theMW, Bind: &Bind{MR: theMR, Offset: windowAt, Length: windowLen, Access: []string{"REMOTE_WRITE"}}})
}

func throughWindow(id Num) WR {
	return WR{ID: id, Opcode: "RDMA_WRITE", SGL: sge(0, uint32(len(windowed))), Remote: &Remote{MR: theMW}}
}

// completed reports whether the action polled the successes of two requests of the client, one right after the other.
func (g *glance) completed(first, second string) bool {
	if !g.at("poll_cq", client) {
		return false
	}
	c := g.result.Completions
	for i := 1; i < len(c); i++ {
		if c[i-1].Opcode == first && c[i].Opcode == second {
			return true
		}
	}
	return false
}

// copies returns how often a text stands in the regions of a host.
func (g *glance) copies(host int, text string) (n int) {
	for _, o := range g.open(host, "MR") {
		n += bytes.Count(o.mr.Bytes(), []byte(text))
	}
	return n
}

// fenceWaits reports whether a request with FENCE waits in the client's send queue behind a READ.
func (g *glance) fenceWaits() bool {
	for _, o := range g.qps(client) {
		read := false
		for _, w := range g.s.hosts[client].qpView(o).Sends {
			if read && !w.Started && slices.Contains(w.Flags, "FENCE") && w.Opcode != "RDMA_READ" {
				return true
			}
			read = read || w.Opcode == "RDMA_READ" && w.Started
		}
	}
	return false
}

// windows returns how many windows of type 2 are bound at the server.
func (g *glance) windows() (n int) {
	for _, o := range g.open(server, "MW") {
		if o.mw.Type() == verbs.MWType2 && simulated.InspectMW(o.mw).Bound {
			n++
		}
	}
	return n
}

// byWindow reports whether the client's last request with an ID used the unchanged key of a window.
func (g *glance) byWindow(id Num) bool {
	for _, a := range slices.Backward(g.s.actions) {
		if a.Do != "post_send" || a.Host != "client" {
			continue
		}
		for _, w := range a.WRs {
			if w.ID != id {
				continue
			}
			return w.Remote != nil && w.Remote.RKeyAdd == 0 && slices.ContainsFunc(g.s.hosts[server].objects, func(o *object) bool { return o.kind == "MW" && o.name == w.Remote.MR })
		}
	}
	return false
}
