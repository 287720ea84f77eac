// The mistakes of cmd/internal/lab/mistake as sessions. A test makes each of them and compares what both
// ends reported with what cmd/internal/lab/mistake promises; the texts are the page's, from the same data.

package workbench

import "slices"

// MistakeView is a mistake.
type MistakeView struct {
	Name string `json:"name"`
	// Actions is the whole session. Those from Question on are carried out after the user has
	// answered the question.
	Actions  []Action `json:"actions"`
	Question int      `json:"question"`
}

// mistakeOf makes a mistake of what comes before the question and after it.
func mistakeOf(name string, before, after []Action) MistakeView {
	return MistakeView{name, script(before, after), len(before)}
}

func mistakeViews() []MistakeView {
	return slices.Concat(mistakesOfMoves(), mistakesOfPaths(), mistakesOfMemory(), mistakesOfQueues())
}

func mistakesOfMoves() []MistakeView {
	without := func(v values, name string) values {
		v = v.changed(nil)
		delete(v, name)
		return v
	}
	noPort := move("client", theQP, "INIT", without(initRC, "PORT"))
	noPort[0].Attr["PORT"] = []byte("1") // the field is right, but the mask does not name it
	return []MistakeView{
		mistakeOf("missing-mask-bit", both(objects), noPort),
		mistakeOf("forbidden-bit", script(both(objects), toInit("client"), tell("server")), move("client", theQP, "RTR", rtrRC.changed(values{"PORT": 1}))),
		mistakeOf("skipped-state", script(both(objects), toInit("client"), tell("client")), move("client", theQP, "RTS", rtsRC)),
	}
}

// impatient gives up after some milliseconds without an answer.
var impatient = values{"TIMEOUT": 9, "RETRY_CNT": 2}

func mistakesOfPaths() []MistakeView {
	apart := func(client, server values) []Action { // the ends have different attributes at RTR
		return script(both(bigObjects), both(toInit), both(tell), move("client", theQP, "RTR", rtrRC.changed(client)), move("server", theQP, "RTR", rtrRC.changed(server)),
			move("client", theQP, "RTS", rtsRC.changed(values{"TIMEOUT": 16, "RETRY_CNT": 1})), toRTS("server"))
	}
	return []MistakeView{
		mistakeOf("wrong-gid", script(both(objects), both(toInit), both(tell), move("client", theQP, "RTR", rtrRC.changed(values{"AV": AV{GID: "10.0.0.99"}})), toRTR("server"),
			move("client", theQP, "RTS", rtsRC.changed(impatient)), toRTS("server"), recv("server", 1, 0, 64)),
			script(send(1, 64), run, poll("client"), poll("server"))),
		mistakeOf("psn-off-by-one", script(apart(nil, values{"RQ_PSN": 0xff}), recv("server", 1, 0, 64)), script(send(1, 64), run, poll("client"), poll("server"))),
		mistakeOf("psn-too-high", script(apart(nil, values{"RQ_PSN": 0x101}), recv("server", 1, 0, 64), recv("server", 2, 64, 64)),
			script(send(1, 64), run, send(2, 32), run, poll("client"), poll("server"))),
		mistakeOf("mtu-mismatch", script(apart(values{"PATH_MTU": 1024}, values{"PATH_MTU": 512}), recv("server", 1, 0, 1024), recv("server", 2, 1024, 1024)),
			script(send(1, 64), run, poll("client"), poll("server"), send(2, 1024), run, poll("client"), poll("server"))),
		mistakeOf("port-blocked", script(connected(nil, impatient), recv("server", 1, 0, 64)),
			script(send(1, 64), drop(1), step, drop(2), step, drop(3), step, poll("client"), poll("server"))),
		mistakeOf("lost-packet", script(keeping("client"), keeping("server"), connect(bigObjects, values{"PATH_MTU": 1024, "MIN_RNR_TIMER": 31}, nil), recv("server", 1, 0, 3000)),
			script(send(1, 3000), drop(2), run, poll("client"), poll("server"), send(2, 64), step, step, recv("server", 2, 0, 64), run, poll("client"), poll("server"),
				post(WR{ID: 3, Opcode: "RDMA_WRITE", SGL: sge(0, 64), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}}), run, poll("client"))),
	}
}

// bigObjects are objects with a region of a page, as cmd/internal/lab/mistake has.
func bigObjects(host string) []Action {
	return script(parents(host, bigSize), makeQP(host, theQP, "RC"))
}

const bigSize = 4096

func mistakesOfMemory() []MistakeView {
	ready := script(connected(nil, nil), recv("server", 1, 0, 64))
	write := func(r Remote) []Action {
		return script(post(WR{ID: 1, Opcode: "RDMA_WRITE", SGL: sge(0, 64), Remote: &r}), run, poll("client"), poll("server"))
	}
	return []MistakeView{
		mistakeOf("bad-rkey", ready, write(Remote{MR: theMR, RKeyAdd: wrongKey})),
		mistakeOf("out-of-bounds", script(connect(bigObjects, nil, nil), recv("server", 1, 0, 64)), write(Remote{MR: theMR, Offset: bigSize - 32})),
		mistakeOf("lkey-as-rkey", script(connected(nil, nil), reg("server", "own", 64, "LOCAL_WRITE"), recv("server", 1, 0, 64),
			one(&Action{Do: "exchange", Host: "server", MR: "own", LKey: true})), write(Remote{MR: "own"})),
		mistakeOf("missing-local-write", script(connected(nil, nil), reg("client", "into", 64, "REMOTE_READ")),
			script(post(WR{ID: 1, Opcode: "RDMA_READ", SGL: []SGE{{MR: "into", Length: 64}}, Remote: &Remote{MR: theMR}}), run, poll("client"))),
		mistakeOf("unaligned-atomic", connected(nil, nil), post(atomic(1, "ATOMIC_FETCH_AND_ADD", 4, 1, 0))),
		mistakeOf("memory-closed", script(connected(nil, nil), reg("server", "short", 64, "LOCAL_WRITE"),
			postRecv("server", theQP, WR{ID: 1, SGL: []SGE{{MR: "short", Length: 64}}}), closing("server", "short")),
			script(send(1, 64), run, poll("client"), poll("server"))),
	}
}

func mistakesOfQueues() []MistakeView {
	return []MistakeView{
		mistakeOf("no-receive", connected(nil, values{"RNR_RETRY": 2}), script(send(1, 64), run, poll("client"), poll("server"))),
		mistakeOf("receive-too-small", script(connected(nil, nil), recv("server", 1, 0, 64), recv("server", 2, 64, 64)),
			script(send(1, 128), run, poll("client"), poll("server"))),
		mistakeOf("unsignaled-overflow", script(quiet("client", sendPlaces), objects("server"), toInit("client"), both(tell), toRTR("client"), toRTS("client")),
			post(writes(0, sendPlaces+1)...)),
		mistakeOf("no-read-resources", script(both(objects), both(toInit), both(tell), toRTR("client"), move("server", theQP, "RTR", rtrRC.changed(values{"MAX_DEST_RD_ATOMIC": 0})), both(toRTS)),
			script(post(onRegion(1, "RDMA_WRITE", 0, 64)), run, poll("client"), post(onRegion(2, "RDMA_READ", 0, 64)), run, poll("client"))),
		mistakeOf("early-disconnect", script(connected(nil, nil), recv("client", 1, 64, 64), recv("server", 1, 0, 64)),
			script(send(1, 64), run, poll("client"), poll("server"), move("server", theQP, "ERR", nil), move("client", theQP, "ERR", nil), poll("client"))),
	}
}
