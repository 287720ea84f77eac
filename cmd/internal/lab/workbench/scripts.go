// Scripts: lists of actions for lessons and mistakes, in short words.

package workbench

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
)

// The names of objects in all scripts.
const (
	thePD  = "pd"
	theCQ  = "cq"
	theMR  = "buf"
	theQP  = "qp"
	theSRQ = "srq"
	theAH  = "ah"
)

// script joins parts of a script. Parts are slices, and actions are made by functions, because an
// Action is large: as literals, the scripts would be a third of the engine.
func script(parts ...[]Action) []Action { return slices.Concat(parts...) }

// one is a part of one action.
func one(a *Action) []Action { return []Action{*a} }

// both makes a part for both hosts.
func both(part func(host string) []Action) []Action {
	return script(part("client"), part("server"))
}

// everyRight is what a region and a queue pair may grant here.
var (
	regionRights = []string{"LOCAL_WRITE", "REMOTE_READ", "REMOTE_WRITE", "REMOTE_ATOMIC"}
	qpRights     = regionRights[1:]
)

const bufSize = 256

func reg(host, name string, length int, access ...string) []Action {
	return one(&Action{Do: "reg_mr", Host: host, Name: name, PD: thePD, Length: length, Access: access})
}

// parents makes a domain, a CQ and a region.
func parents(host string, size int) []Action {
	return script(one(&Action{Do: "alloc_pd", Host: host, Name: thePD}), reg(host, theMR, size, regionRights...),
		one(&Action{Do: "create_cq", Host: host, Name: theCQ, Depth: 32}))
}

// sendPlaces is the size of a send queue.
const sendPlaces = 8

func makeQP(host, name, kind string) []Action {
	return one(&Action{Do: "create_qp", Host: host, Name: name, PD: thePD, Type: kind, SendCQ: theCQ, RecvCQ: theCQ, SigAll: true,
		Cap: &Cap{SendWR: sendPlaces, RecvWR: 8, SendSGE: 2, RecvSGE: 2, Inline: 64}})
}

func objects(host string) []Action {
	return script(parents(host, bufSize), makeQP(host, theQP, "RC"))
}

// quiet makes objects whose queue pair signals only the sends that ask for it.
func quiet(host string, sends uint32) []Action {
	qp := makeQP(host, theQP, "RC")
	qp[0].SigAll, qp[0].Cap.SendWR = false, sends
	return script(parents(host, bufSize), qp)
}

// writes are n unsignaled WRITEs; their numbers begin with first.
func writes(first Num, n int) (wrs []WR) {
	for i := range n {
		wrs = append(wrs, onRegion(first+Num(i), "RDMA_WRITE", 0, 8))
	}
	return wrs
}

// values are attributes, by the names of their bits.
type values map[string]any

func (v values) raw() map[string]json.RawMessage {
	m := make(map[string]json.RawMessage, len(v))
	for name, value := range v {
		text, err := json.Marshal(value)
		if err != nil {
			panic("workbench: " + err.Error()) // the scripts are constant
		}
		m[name] = text
	}
	return m
}

// bitNames are the names of all bits. The scripts have hundreds of moves.
var bitNames = sync.OnceValue(func() []string { return bitList(action.AllBits) })

// move is a modify_qp to a state with exactly the bits of the values.
func move(host, qp, to string, with values) []Action {
	mask := []string{"STATE"}
	all := values{"STATE": to}
	for _, bit := range bitNames() {
		if v, ok := with[bit]; ok {
			mask, all[bit] = append(mask, bit), v
		}
	}
	return one(&Action{Do: "modify_qp", Host: host, Name: qp, Mask: mask, Attr: all.raw()})
}

// changed returns v with some values replaced.
func (v values) changed(by values) values {
	out := maps.Clone(v)
	maps.Copy(out, by)
	return out
}

var (
	initRC = values{"PKEY_INDEX": 0, "PORT": 1, "ACCESS_FLAGS": qpRights}
	initUD = values{"PKEY_INDEX": 0, "PORT": 1, "QKEY": 0x11111111}
	rtrUC  = values{"AV": "peer", "PATH_MTU": "peer", "DEST_QPN": "peer", "RQ_PSN": "peer"}
	rtrRC  = rtrUC.changed(values{"MAX_DEST_RD_ATOMIC": 1, "MIN_RNR_TIMER": 12})
	rtsRC  = values{"TIMEOUT": 14, "RETRY_CNT": 7, "RNR_RETRY": 7, "SQ_PSN": "own", "MAX_QP_RD_ATOMIC": 1}
	rtsUC  = values{"SQ_PSN": "own"}
	rtsUD  = values{"SQ_PSN": 0}
)

func toInit(host string) []Action { return move(host, theQP, "INIT", initRC) }
func toRTR(host string) []Action  { return move(host, theQP, "RTR", rtrRC) }
func toRTS(host string) []Action  { return move(host, theQP, "RTS", rtsRC) }
func tell(host string) []Action   { return exchange(host, theQP, theMR) }

func exchange(host, qp, mr string) []Action {
	return one(&Action{Do: "exchange", Host: host, Name: qp, MR: mr})
}

// connected is two RC queue pairs in RTS. rts and rtr have what differs from the usual.
func connected(rtr, rts values) []Action { return connect(objects, rtr, rts) }

// connect makes the objects of both hosts and moves the queue pairs to RTS.
func connect(objects func(host string) []Action, rtr, rts values) []Action {
	return connectTelling(objects, tell, rtr, rts)
}

// connectTelling is connect with an exchange of its own.
func connectTelling(objects, tell func(host string) []Action, rtr, rts values) []Action {
	return script(both(objects), both(toInit), both(tell),
		both(func(h string) []Action { return move(h, theQP, "RTR", rtrRC.changed(rtr)) }),
		both(func(h string) []Action { return move(h, theQP, "RTS", rtsRC.changed(rts)) }))
}

// sge is n bytes of the host's region.
func sge(off int, n uint32) []SGE { return []SGE{{MR: theMR, Offset: off, Length: n}} }

func recv(host string, id Num, off int, n uint32) []Action {
	return postRecv(host, theQP, WR{ID: id, SGL: sge(off, n)})
}

func postRecv(host, queue string, wrs ...WR) []Action {
	return one(&Action{Do: "post_recv", Host: host, Name: queue, WRs: wrs})
}

// post posts requests to the client's queue pair.
func post(wrs ...WR) []Action { return postTo(theQP, wrs...) }

func postTo(qp string, wrs ...WR) []Action { return postAt("client", qp, wrs...) }

func postAt(host, qp string, wrs ...WR) []Action {
	return one(&Action{Do: "post_send", Host: host, Name: qp, WRs: wrs})
}

func send(id Num, n uint32) []Action { return post(WR{ID: id, Opcode: "SEND", SGL: sge(0, n)}) }

// onRegion is a request of the client on the server's region.
func onRegion(id Num, opcode string, off int, n uint32) WR {
	return WR{ID: id, Opcode: opcode, SGL: sge(0, n), Remote: &Remote{MR: theMR, Offset: off}}
}

func onCQ(do, host string) []Action { return one(&Action{Do: do, Host: host, Name: theCQ}) }

func poll(host string) []Action { return onCQ("poll_cq", host) }
func arm(host string) []Action  { return onCQ("arm_cq", host) }
func wait(host string) []Action { return onCQ("get_cq_event", host) }

var (
	run  = one(&Action{Do: "run"})
	step = one(&Action{Do: "step"})
)

func text(host string, off int, s string) []Action {
	return one(&Action{Do: "write", Host: host, Name: theMR, Offset: off, Text: s})
}

func drop(packet int) []Action { return one(&Action{Do: "drop", Packet: packet}) }

func closing(host, name string) []Action { return one(&Action{Do: "close", Host: host, Name: name}) }

// wrongWrite is a WRITE with the key of no region, which ends in ERR at both ends.
func wrongWrite(id Num) []Action {
	return post(WR{ID: id, Opcode: "RDMA_WRITE", SGL: sge(0, 8), Remote: &Remote{MR: theMR, RKeyAdd: wrongKey}})
}

// reset moves a host's queue pair to RESET.
func reset(host string) []Action { return move(host, theQP, "RESET", nil) }
