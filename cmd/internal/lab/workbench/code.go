// The code of actions: package program writes it from what it needs to know of the hosts.

package workbench

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/program"
	"github.com/rawverbs/rawverbs/qpstate"
)

// Code is an action in both languages, line by line.
type Code struct {
	C  []string `json:"c"`
	Go []string `json:"go"`

	program [len(program.Languages)][]string // the lines of the programs
}

// code writes an action that was just carried out. before has the attributes of the queue pairs before
// it: if a device has moved one by itself, the program first waits for that.
func (s *Session) code(a *action.Action, r *Result, before memory) {
	own, _ := s.host(a.Host)
	if _, ok := worldKinds[a.Do]; ok {
		own = nil
	}
	var shown [len(program.Languages)][]string
	for _, in := range program.Languages {
		if own == nil {
			text := program.Wire(in, a.Do)
			shown[in], r.Code.program[in] = text.Show, text.Program
			continue
		}
		h := own.forProgram()
		for _, o := range own.objects {
			if attr, ok := before.attrs[o]; ok && attr.State != o.coded {
				r.Code.program[in] = append(r.Code.program[in], program.Await(in, h, o.name, attr.State))
			}
		}
		text := program.Write(in, h, a, r.forProgram())
		shown[in], r.Code.program[in] = text.Show, append(r.Code.program[in], text.Program...)
	}
	r.Code.C, r.Code.Go = shown[program.C], shown[program.Go]
	if own == nil {
		return
	}
	for _, o := range own.objects {
		switch attr, ok := before.attrs[o]; {
		case o.kind != "QP" || o.closed:
		case a.Do == "modify_qp" && o.name == a.Name && r.Refused == nil:
			o.coded = o.program
		case ok:
			o.coded = attr.State
		}
	}
}

func (h *host) forProgram() *program.Host {
	out := &program.Host{Name: h.side.String(), Peer: h.side.Peer().String(), Knows: endpoints(h.told), Told: endpoints(h.s.hosts[h.side.Peer()].told)}
	for _, o := range h.objects {
		p := program.Object{Name: o.name, Kind: o.kind, Verb: o.verb, Closed: o.closed, Bound: o.bound, Unacked: o.unacked}
		if o.kind == "MR" {
			p.ZeroBased, p.Length = o.zeroBased(), o.mr.Len()
		}
		out.Objects = append(out.Objects, p)
	}
	return out
}

func endpoints(list []told) (out []program.Endpoint) {
	for _, t := range list {
		out = append(out, program.Endpoint{Name: t.Name, PSN: t.PSN, QKey: t.QKey})
	}
	return out
}

func (r *Result) forProgram() *program.Result {
	out := &program.Result{Accepted: r.Accepted, Asleep: r.Asleep, Acked: r.acked}
	if r.Refused != nil {
		out.Errno = r.Refused.Errno
	}
	for i := range r.Completions {
		c := &r.Completions[i]
		out.Completions = append(out.Completions, program.Completion{ID: uint64(c.ID), Status: c.Status, Number: c.Number})
	}
	return out
}

// Program returns the session as a program in "c" or "go".
func (s *Session) Program(language string) (string, error) {
	in, ok := map[string]program.Language{"c": program.C, "go": program.Go}[language]
	if !ok {
		return "", errors.Errorf(`language %q: it is "c" or "go"`, language)
	}
	whole := program.Session{Actions: s.actions}
	for i, r := range s.results {
		whole.Code = append(whole.Code, r.Code.program[in])
		whole.Full = whole.Full || s.actions[i].Do == "post_send" && r.Refused != nil && r.Refused.Errno == "ENOMEM"
	}
	for _, h := range s.hosts {
		end := h.forProgram()
		whole.Hosts = append(whole.Hosts, end)
		for _, o := range h.objects {
			if state := s.stateOf(h, o); o.kind == "QP" && !o.closed && state != o.coded {
				whole.Final = append(whole.Final, program.Await(in, end, o.name, state))
			}
		}
	}
	return whole.Write(in), nil
}

// stateOf returns the state of a queue pair; RESET for other objects.
func (s *Session) stateOf(h *host, o *object) qpstate.State {
	if o.kind != "QP" || o.closed {
		return qpstate.Reset
	}
	in, _ := s.world.InspectQP(h.side, o.qp)
	return in.Attr.State
}
