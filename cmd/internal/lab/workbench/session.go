// A session: a list of actions, and the world that they have made.

package workbench

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// Setup is how a session begins.
type Setup struct {
	Seed    uint64 `json:"seed,omitempty"`     // of queue pair numbers and keys
	DelayNS int64  `json:"delay_ns,omitempty"` // from host to host; 0 is 10 µs
	MTU     int    `json:"mtu,omitempty"`      // the ports' active MTU in bytes; 0 is 1024
	Lesson  string `json:"lesson,omitempty"`   // or task of the examination, whose goals are checked
}

// Limits of a session, so that a page cannot hang.
const (
	maxActions = 50000
	maxObjects = 64      // of each host
	maxRegion  = 1 << 16 // bytes
	maxEvents  = 20000   // of one action
	maxWRs     = 256     // of one post
)

// Session is a list of actions and what they have made. It is for one goroutine.
type Session struct {
	setup   Setup
	world   *simulated.World
	hosts   [2]*host
	actions []Action
	results []*Result
	log     []Event
	lesson  Lesson // the zero value: none
	goals   []GoalState
	sentBy  []int // sentBy[i]: the number of the action that sent packet i+1
	touched []int // touched[i]: the number of actions when packet i+1 was sent or changed last
}

// Result is what an action did.
type Result struct {
	Refused     *Refusal     `json:"refused,omitempty"`     // the device or the library refused the call
	Accepted    int          `json:"accepted,omitempty"`    // of a post: the work requests that were queued
	Completions []Completion `json:"completions,omitempty"` // of a poll
	Asleep      bool         `json:"asleep,omitempty"`      // in a program the call would wait here; Note says for what
	Note        string       `json:"note,omitempty"`        // why nothing happened, or what the device made of a value
	Code        Code         `json:"code"`                  // the same in C and in Go

	acked int // of ack_cq_events: how many
	freed int // of a poll: the places in send queues that it has freed
}

// New returns a session without actions.
func New(setup Setup) (*Session, error) {
	if setup.DelayNS < 0 || setup.DelayNS > int64(time.Second) {
		return nil, errors.Errorf("a delay of %d ns: the wire's delay is 0 to 1 s", setup.DelayNS)
	}
	s := &Session{setup: setup}
	if setup.Lesson != "" {
		l, ok := findLesson(setup.Lesson)
		if !ok {
			return nil, errors.Errorf("lesson %q: there is none; the lessons are %v", setup.Lesson, lessonIDs())
		}
		s.lesson = l
		setup.MTU, setup.DelayNS = cmp.Or(setup.MTU, l.MTU), cmp.Or(setup.DelayNS, l.DelayNS)
		for _, g := range l.Goals {
			s.goals = append(s.goals, GoalState{Key: g.Key, Met: -1})
		}
	}
	cfg := simulated.Config{Seed: setup.Seed, Delay: time.Duration(setup.DelayNS),
		Options: verbs.OpenOptions{Logger: slog.New(slog.DiscardHandler)}}
	if setup.MTU != 0 {
		mtu, ok := qpstate.MTUFor(setup.MTU)
		if !ok {
			return nil, errors.Errorf("MTU %d: it is 256, 512, 1024, 2048 or 4096", setup.MTU)
		}
		cfg.MTU = mtu
	}
	var err error
	if s.world, err = simulated.New(cfg); err != nil {
		return nil, err
	}
	for _, h := range simulated.Hosts {
		s.hosts[h] = &host{s: s, side: h, dev: s.world.Device(h)}
	}
	return s, nil
}

// Replay returns a session after a list of actions. The error names the first action that has no
// meaning; the session has the actions before it.
func Replay(setup Setup, actions []Action) (*Session, error) {
	s, err := New(setup)
	if err != nil {
		return nil, err
	}
	for i := range actions {
		if _, err := s.Do(actions[i]); err != nil {
			return s, errors.WithMessagef(err, "action %d", i)
		}
	}
	return s, nil
}

// Setup returns how the session began.
func (s *Session) Setup() Setup { return s.setup }

// Back replays all but the last n actions, as a new session, and closes s.
func (s *Session) Back(n int) (*Session, error) {
	if n < 0 || n > len(s.actions) {
		return nil, errors.Errorf("go back by %d actions: there are %d", n, len(s.actions))
	}
	replayed, err := Replay(s.setup, s.actions[:len(s.actions)-n])
	if err != nil {
		return nil, err
	}
	return replayed, s.Close()
}

// doer carries out an action on a host.
type doer func(h *host, a *Action) (*Result, error)

// kinds are the actions. Those that name no host are in worldKinds.
var kinds = map[string]doer{
	"alloc_pd": (*host).allocPD, "reg_mr": (*host).regMR, "create_cq": (*host).createCQ, "create_srq": (*host).createSRQ,
	"create_qp": (*host).createQP, "create_ah": (*host).createAH, "alloc_mw": (*host).allocMW, "close": (*host).closeObject,
	"modify_qp": (*host).modifyQP, "query_qp": (*host).queryQP, "modify_srq": (*host).modifySRQ,
	"exchange": (*host).exchange, "write": (*host).write,
	"post_send": (*host).postSend, "post_recv": (*host).postRecv, "bind_mw": (*host).bindMW,
	"poll_cq": (*host).pollCQ, "arm_cq": (*host).armCQ, "get_cq_event": (*host).getCQEvent, "ack_cq_events": (*host).ackCQEvents,
}

// worldKinds are the actions on the clock, the wire and the devices, which no program can do.
var worldKinds = map[string]func(s *Session, a *Action) (*Result, error){
	"step": (*Session).step, "run": (*Session).run, "drop": (*Session).drop, "duplicate": (*Session).duplicate,
	"delay": (*Session).delay, "reorder": (*Session).reorder, "corrupt": (*Session).corrupt, "deliver": (*Session).deliver,
	"mark": (*Session).mark, "selective_repeat": (*Session).selectiveRepeat,
}

// Do carries out an action and appends it to the list. After an error the session is unchanged.
func (s *Session) Do(a Action) (*Result, error) {
	if len(s.actions) >= maxActions {
		return nil, errors.Errorf("a session has at most %d actions", maxActions)
	}
	before := s.remember()
	packets := len(s.world.Packets())
	r, err := s.carryOut(&a)
	if err != nil {
		return nil, errors.WithMessage(err, a.Do)
	}
	s.actions, s.results = append(s.actions, a), append(s.results, r)
	s.collectEvents()
	s.notice(before, packets)
	s.code(&a, r, before)
	s.checkGoals()
	return r, nil
}

func (s *Session) carryOut(a *Action) (*Result, error) {
	if do, ok := worldKinds[a.Do]; ok {
		return do(s, a)
	}
	do, ok := kinds[a.Do]
	if !ok {
		return nil, errors.Errorf("there is no action %q", a.Do)
	}
	h, err := s.host(a.Host)
	if err != nil {
		return nil, err
	}
	return do(h, a)
}

func (s *Session) host(name string) (*host, error) {
	for _, h := range s.hosts {
		if h.side.String() == name {
			return h, nil
		}
	}
	return nil, errors.Errorf(`host %q: a host is "client" or "server"`, name)
}

// Close frees everything. The session cannot be used afterwards.
func (s *Session) Close() error {
	for _, h := range s.hosts {
		if err := h.closeAll(); err != nil {
			return err
		}
	}
	return s.world.Close()
}
