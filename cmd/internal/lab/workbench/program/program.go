// Package program writes the actions of a session in C and in Go: the call that does the same, for
// the page, and whole programs, which also check each result. c*.go and golang*.go have the two
// languages, values.go what they share, whole.go the programs.
package program

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/qpstate"
)

// Language is a language.
type Language int

// The languages.
const (
	C Language = iota
	Go
)

// queried are the names of the bits of a query.
var queried = func() (names []string) {
	for _, bit := range action.Queried.Bits() {
		names = append(names, bit.Name())
	}
	return names
}()

// Languages are both.
var Languages = [...]Language{C, Go}

// Host is a host after an action, as far as its code depends on it.
type Host struct {
	Name, Peer string     // "client" and "server"
	Objects    []Object   // in the order of their making, also the closed ones
	Knows      []Endpoint // what the peer has told, the newest last
	Told       []Endpoint // what the peer knows of this host
}

// Object is an object of a host.
type Object struct {
	Name, Kind string // Kind is "PD", "MR" …
	Verb       string // that destroys it
	Closed     bool
	ZeroBased  bool         // of a region: its addresses count from 0
	Length     int          // of a region
	Bound      *action.Bind // of a window: its last bind; nil: none
	Unacked    int          // of a CQ: events that were taken and not acknowledged
}

// Endpoint is what one end has told about a queue pair.
type Endpoint struct {
	Name      string
	PSN, QKey uint32
}

// Result is what an action did.
type Result struct {
	Errno       string // "" if it was not refused
	Accepted    int
	Completions []Completion
	Asleep      bool // the call would wait
	Acked       int  // events that were acknowledged
}

// Completion is a completion that was polled.
type Completion struct {
	ID     uint64
	Status string // "SUCCESS" …
	Number uint32
}

// Text is code, line by line.
type Text struct {
	Show    []string // for the page
	Program []string // for a program: the same, and the checks of the results
}

// open returns an open object, or nil.
func (h *Host) open(name string) *Object {
	for i := range h.Objects {
		if o := &h.Objects[i]; o.Name == name && !o.Closed {
			return o
		}
	}
	return nil
}

// region returns the newest region of a name, open or not, or nil.
func (h *Host) region(name string) *Object {
	for i := len(h.Objects) - 1; i >= 0; i-- {
		if o := &h.Objects[i]; o.Name == name && o.Kind == "MR" {
			return o
		}
	}
	return nil
}

// toldName returns the name of the peer's queue pair that a name stands for; "" is the last told.
func (h *Host) toldName(name string) string {
	if n := len(h.Knows); name == "" && n > 0 {
		return h.Knows[n-1].Name
	}
	return name
}

// told returns what the peer knows of a queue pair of this host.
func (h *Host) told(name string) (found Endpoint) {
	for _, e := range h.Told {
		if e.Name == name {
			found = e
		}
	}
	return found
}

// lines collects the code of one action in one language.
type lines struct {
	show []string
	all  []string
}

// add appends lines that the page shows.
func (l *lines) add(text ...string) { l.show, l.all = append(l.show, text...), append(l.all, text...) }

// check appends lines for the program alone.
func (l *lines) check(text ...string) { l.all = append(l.all, text...) }

// writer writes actions in one language.
type writer interface {
	words
	comment(text string) string
	object(l *lines, h *Host, a *action.Action, r *Result)
	closing(l *lines, h *Host, a *action.Action, o *Object, r *Result)
	modify(l *lines, h *Host, a *action.Action, r *Result)
	query(l *lines, h *Host, a *action.Action, r *Result)
	modifySRQ(l *lines, h *Host, a *action.Action, r *Result)
	tellEndpoint(l *lines, h *Host, name string, t Endpoint)
	tellMemory(l *lines, h *Host, a *action.Action, o *Object)
	write(l *lines, h *Host, a *action.Action, r *Result)
	postSend(l *lines, h *Host, a *action.Action, r *Result)
	postRecv(l *lines, h *Host, a *action.Action, r *Result)
	bindMW(l *lines, h *Host, a *action.Action, r *Result)
	poll(l *lines, h *Host, a *action.Action, r *Result)
	arm(l *lines, h *Host, a *action.Action, r *Result)
	getEvent(l *lines, h *Host, a *action.Action, r *Result)
	ackEvents(l *lines, h *Host, a *action.Action, r *Result)
	await(h *Host, name string, state qpstate.State) string
	variables(s *Session) string      // declares all variables of a program
	closed(h *Host, o *Object) string // closes an object at the end of a program
}

var writers = [...]writer{C: cWriter{}, Go: goWriter{}}

// write are the functions that write the actions; writer.object writes the others, which make objects.
var write = map[string]func(w writer, l *lines, h *Host, a *action.Action, r *Result){
	"close": closing, "modify_qp": writer.modify, "query_qp": writer.query, "modify_srq": writer.modifySRQ, "exchange": exchange, "write": writer.write,
	"post_send": writer.postSend, "post_recv": writer.postRecv, "bind_mw": writer.bindMW,
	"poll_cq": writer.poll, "arm_cq": writer.arm, "get_cq_event": writer.getEvent, "ack_cq_events": writer.ackEvents,
}

// Write writes an action of a host.
func Write(in Language, h *Host, a *action.Action, r *Result) Text {
	var l lines
	do, ok := write[a.Do]
	if !ok {
		do = writer.object
	}
	do(writers[in], &l, h, a, r)
	return Text{l.show, l.all}
}

// closing writes the end of the newest object of a name.
func closing(w writer, l *lines, h *Host, a *action.Action, r *Result) {
	for i := range slices.Backward(h.Objects) {
		if o := &h.Objects[i]; o.Name == a.Name {
			w.closing(l, h, a, o, r)
			return
		}
	}
}

// exchange writes what a host tells its peer.
func exchange(w writer, l *lines, h *Host, a *action.Action, _ *Result) {
	l.add(w.comment(fmt.Sprintf("over TCP, the %s tells the %s:", h.Name, h.Peer)))
	if a.Name != "" {
		w.tellEndpoint(l, h, a.Name, h.told(a.Name))
	}
	if o := h.open(a.MR); o != nil {
		w.tellMemory(l, h, a, o)
	}
}

// Wire writes an action on the clock or the wire: a comment.
func Wire(in Language, do string) Text {
	text := []string{writers[in].comment(wireText[do])}
	return Text{text, text}
}

// Await writes the wait for a state to which the device itself moves a queue pair.
func Await(in Language, h *Host, qp string, state qpstate.State) string {
	return writers[in].await(h, qp, state)
}

// wireText says what a program does instead of an action on the wire.
var wireText = map[string]string{
	"step":      "time passes: the devices and the network work by themselves",
	"run":       "time passes: the devices and the network work by themselves",
	"drop":      "the laboratory loses a packet here; a program cannot",
	"duplicate": "the laboratory duplicates a packet here; a program cannot",
	"delay":     "the laboratory delays a packet here; a program cannot",
	"reorder":   "the laboratory reorders packets here; a program cannot",
	"corrupt":   "the laboratory damages a packet here; a program cannot",
	"deliver":   "the laboratory delivers a packet before its time here; a program cannot",
	"mark":      "the laboratory marks a packet here; a program cannot",

	"selective_repeat": "the laboratory changes a device here; a program cannot",
}

// tampers reports whether an action does what no program can.
func tampers(do string) bool { return strings.HasSuffix(wireText[do], "cannot") }
