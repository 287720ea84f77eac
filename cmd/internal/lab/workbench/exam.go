// The final examination: ten tasks on the bench, in the form of lessons without hints, and ten questions. The texts are
// the page's, by the keys of ExamView.

package workbench

import (
	"slices"
	"strings"
	"sync"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
)

// examPart is a part of the examination: a task has goals, a question has answers.
type examPart struct {
	Lesson
	Subject  string // one of subjects
	TaughtBy string // the lesson to do again after a mistake
}

// ExamView is a part of the examination for the page. The keys of its texts begin with its ID: title, ask and why of each;
// goal.KEY of a task; answer.1 … and wrong.N of a question. A task is opened as the lesson of its ID.
type ExamView struct {
	LessonView
	Subject  string `json:"subject"`
	TaughtBy string `json:"taught_by"`
}

// The subjects of the examination. Each has two tasks and two questions.
const (
	subjectStates = "states"
	subjectWire   = "wire"
	subjectMemory = "memory"
	subjectQueues = "queues"
	subjectErrors = "errors"
)

// subjects has them in the order of the result.
var subjects = []string{subjectStates, subjectWire, subjectMemory, subjectQueues, subjectErrors}

func examViews() (views []ExamView) {
	for _, p := range exam() {
		views = append(views, ExamView{p.view(), p.Subject, p.TaughtBy})
	}
	return views
}

// question is a part that is answered by choosing.
func question(id, subject, lesson string, right int) examPart {
	return examPart{Lesson{ID: "exam-" + id, Answers: 3, Right: right}, subject, lesson}
}

// task is a part that is done on the bench.
func task(id, subject, lesson string, start, solution []Action, goals ...Goal) examPart {
	return examPart{Lesson{ID: "exam-" + id, Start: start, Goals: goals, Solution: solution}, subject, lesson}
}

// exam returns the parts in their order: a question and a task of each subject in turn.
var exam = sync.OnceValue(func() []examPart {
	return []examPart{
		question("init", subjectStates, "rtr", 3),
		// TIMEOUT cannot change in RTS, so the send queue must drain first. The request 1 is in flight.
		task("drain", subjectStates, "sqd", script(connected(nil, nil), recv("server", 1, 0, 64), send(1, 16)),
			script(move("client", theQP, "SQD", nil), run, move("client", theQP, "SQD", values{"TIMEOUT": 18}), move("client", theQP, "RTS", nil), poll("client")),
			Goal{"timeout", func(g *glance) bool {
				return !g.wasReset(client) && slices.ContainsFunc(g.qps(client), func(o *object) bool {
					in, _ := g.s.world.InspectQP(g.s.hosts[client].side, o.qp)
					return in.Attr.Timeout == 18 && in.Attr.State == qpstate.RTS
				})
			}},
			Goal{"sent", func(g *glance) bool {
				return g.polled(client, "SUCCESS", func(c *Completion) bool { return c.Opcode == "SEND" && c.ID == 1 })
			}}),
		question("psns", subjectWire, "gap", 2),
		task("rnr", subjectWire, "rnr", script(connected(nil, nil), recv("server", 1, 0, 64)),
			script(send(1, 16), send(2, 16), step, step, step, recv("server", 2, 64, 64), run, poll("client")),
			Goal{"nak", func(g *glance) bool {
				return g.packet(func(p *PacketView) bool { return p.Why.Kind == "rnr nak" && p.From == "server" })
			}},
			Goal{"sent", func(g *glance) bool {
				return g.goal("nak") && !g.wasReset(client) && sent(g) && !slices.ContainsFunc(g.qps(client), func(o *object) bool {
					in, _ := g.s.world.InspectQP(g.s.hosts[client].side, o.qp)
					return len(in.Sends) > 0
				})
			}}),
		question("check", subjectMemory, "rdma", 2),
		// The server's queue pair does not permit READs, though its region does.
		task("rights", subjectMemory, "init", script(both(objects), toInit("client"),
			move("server", theQP, "INIT", initRC.changed(values{"ACCESS_FLAGS": []string{"REMOTE_WRITE"}})), both(tell), both(toRTR), both(toRTS), text("server", 128, stored)),
			script(move("server", theQP, "RTS", values{"ACCESS_FLAGS": qpRights}),
				post(WR{ID: 1, Opcode: "RDMA_READ", SGL: sge(64, 18), Remote: &Remote{MR: theMR, Offset: 128}}), run, poll("client")),
			Goal{"read", func(g *glance) bool {
				return g.polled(client, "SUCCESS", opcode("RDMA_READ")) && g.holds(client, stored)
			}}),
		question("signal", subjectQueues, "signalling", 1),
		task("notice", subjectQueues, "immediate", script(connected(nil, nil), text("client", 0, written)),
			script(recv("server", 1, 0, 0), post(WR{ID: 1, Opcode: "RDMA_WRITE_WITH_IMM", SGL: sge(0, 21), Imm: 42, Remote: &Remote{MR: theMR, Offset: 128}}), run, poll("server")),
			Goal{"notice", func(g *glance) bool {
				return g.holds(server, written) && g.polled(server, "SUCCESS", func(c *Completion) bool {
					return c.Opcode == "RECV_RDMA_WITH_IMM" && c.Imm != nil && *c.Imm == 42 && int(c.ByteLen) == len(written)
				})
			}}),
		question("flushed", subjectErrors, "errors", 3),
		task("recover", subjectErrors, "errors", script(connected(nil, nil), wrongWrite(1), run, poll("client")),
			script(both(reset), both(toInit), both(toRTR), both(toRTS), recv("server", 1, 0, 64), send(2, 16), run, poll("client"), poll("server")),
			Goal{"sent", sent},
			Goal{"received", func(g *glance) bool { return g.polled(server, "SUCCESS", opcode("RECV")) }}),
		question("mask", subjectStates, "rtr", 1),
		// The client's DEST_QPN is of no queue pair, so nothing answers.
		task("silent", subjectStates, "rtr", script(both(objects), both(toInit), both(tell),
			move("client", theQP, "RTR", rtrRC.changed(values{"DEST_QPN": 0x123})), toRTR("server"),
			move("client", theQP, "RTS", rtsRC.changed(impatient)), toRTS("server"), recv("server", 1, 0, 64), send(1, 16), run, poll("client")),
			script(reset("client"), toInit("client"), toRTR("client"), toRTS("client"), send(2, 16), run, poll("client")),
			Goal{"sent", sent}),
		question("damage", subjectWire, "loss", 3),
		// The request arrives twice, because its acknowledgement is lost.
		task("twice", subjectWire, "loss", script(connected(nil, values{"TIMEOUT": 10}), recv("server", 1, 0, 64), recv("server", 2, 64, 64)),
			script(send(1, 16), step, drop(2), run, poll("client")),
			Goal{"twice", func(g *glance) bool {
				return g.packet(func(p *PacketView) bool { return p.Outcome == "duplicates" && p.From == "client" })
			}},
			Goal{"sent", func(g *glance) bool { return g.goal("twice") && sent(g) }}),
		question("closed", subjectMemory, "errors", 1),
		// The key is right, and yet the request is refused.
		task("bounds", subjectMemory, "errors", connected(nil, nil),
			script(post(onRegion(1, "RDMA_WRITE", bufSize-8, 16)), run, poll("client")),
			Goal{"refused", func(g *glance) bool {
				return g.polled(client, "REM_ACCESS_ERR", func(c *Completion) bool { return c.Check != "" && !strings.HasPrefix(c.Check, simulated.NoRegion) })
			}}),
		question("overrun", subjectQueues, "overrun", 2),
		// A send queue has room again when a completion behind its requests was polled.
		task("full", subjectQueues, "signalling", connected(nil, nil),
			script(post(writes(1, sendPlaces)...), post(writes(1+sendPlaces, 1)...), run, poll("client"), post(writes(1+sendPlaces, 1)...)),
			Goal{"full", func(g *glance) bool { return g.refused("post_send", "ENOMEM") && g.action.Host == "client" }},
			Goal{"again", func(g *glance) bool {
				return g.goal("full") && g.at("post_send", client) && g.result.Accepted > 0 && g.state(client, 0, qpstate.RTS)
			}}),
		question("retries", subjectErrors, "loss", 1),
		// The program wants its buffers back, and no request has failed.
		task("flush", subjectErrors, "errors", script(connected(nil, nil), recv("server", 1, 0, 64), recv("server", 2, 64, 64), recv("server", 3, 128, 64)),
			script(move("server", theQP, "ERR", nil), poll("server")),
			Goal{"flushed", func(g *glance) bool {
				return g.polled(server, "WR_FLUSH_ERR", nil) && !slices.ContainsFunc(g.result.Completions, func(c Completion) bool { return c.Status != "WR_FLUSH_ERR" }) && len(g.result.Completions) == 3
			}}),
	}
})

// sent reports whether the action polled the success of a SEND at the client.
func sent(g *glance) bool { return g.polled(client, "SUCCESS", opcode("SEND")) }
