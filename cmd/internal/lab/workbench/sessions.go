// All sessions of a page, and the calls of the page as text in and out. cmd/internal/lab/workbench/engine binds
// them to JavaScript; web/API.md describes the calls.

package workbench

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
)

// Sessions holds the sessions of a page. It is for one goroutine.
type Sessions struct {
	sessions map[int]*open
	last     int
}

// open is an open session, and a second one that looks back into its past.
type open struct {
	*Session
	past *Session
}

// NewSessions returns an empty list of sessions, for a page.
func NewSessions() *Sessions { return &Sessions{sessions: map[int]*open{}} }

// call is something that a page can call, with args arguments. The first ints of them are whole numbers, of which the first
// is the number of a session, which do gets.
type call struct {
	args, ints int
	do         func(ss *Sessions, s *open, n []int, args []string) (any, error)
}

// calls are what a page can call.
var calls = map[string]call{
	"tables":   {0, 0, func(*Sessions, *open, []int, []string) (any, error) { return AllTables(), nil }},
	"open":     {1, 0, func(ss *Sessions, _ *open, _ []int, args []string) (any, error) { return ss.open(args[0]) }},
	"close":    {1, 1, func(ss *Sessions, s *open, n []int, _ []string) (any, error) { return ss.close(s, n[0]) }},
	"do":       {2, 1, func(_ *Sessions, s *open, _ []int, args []string) (any, error) { return s.do(args[1]) }},
	"snapshot": {2, 2, func(_ *Sessions, s *open, n []int, _ []string) (any, error) { return s.Snapshot(n[1]), nil }},
	"back":     {2, 2, func(_ *Sessions, s *open, n []int, _ []string) (any, error) { return s.back(n[1]) }},
	"peek":     {3, 3, func(_ *Sessions, s *open, n []int, _ []string) (any, error) { return s.peek(n[1], n[2]) }},
	"packet":   {2, 2, func(_ *Sessions, s *open, n []int, _ []string) (any, error) { return s.Packet(n[1]) }},
	"file":     {1, 1, func(_ *Sessions, s *open, _ []int, _ []string) (any, error) { return s.File(), nil }},
	"link":     {1, 1, func(_ *Sessions, s *open, _ []int, _ []string) (any, error) { return s.Link() }},
	"record":   {1, 1, func(_ *Sessions, s *open, _ []int, _ []string) (any, error) { return s.Record() }},
	"program":  {2, 1, func(_ *Sessions, s *open, _ []int, args []string) (any, error) { return s.Program(args[1]) }},
}

// CallNames returns the names of the calls.
func CallNames() (names []string) {
	for name := range calls {
		names = append(names, name)
	}
	return names
}

// reply is what every call returns: a value or an error.
type reply struct {
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// Call carries out a call and returns a JSON object with "value" or "error". Arguments are text:
// numbers in decimal, objects as JSON.
func (ss *Sessions) Call(name string, args ...string) (text string) {
	defer func() {
		if broken := recover(); broken != nil {
			text = marshal(reply{Error: errors.Errorf("the engine failed: %v; this is a bug", broken).Error()})
		}
	}()
	c, ok := calls[name]
	switch {
	case !ok:
		return marshal(reply{Error: "there is no call " + name})
	case len(args) != c.args:
		return marshal(reply{Error: errors.Errorf("%s takes %d arguments and got %d", name, c.args, len(args)).Error()})
	}
	s, n, err := ss.integers(args[:c.ints])
	if err != nil {
		return marshal(reply{Error: err.Error()})
	}
	value, err := c.do(ss, s, n, args)
	if err != nil {
		return marshal(reply{Error: err.Error()})
	}
	return marshal(reply{Value: value})
}

func marshal(r reply) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		panic("workbench: " + err.Error()) // every value can be encoded
	}
	return b.String()
}

// integers reads arguments as numbers, and the first of them as a session.
func (ss *Sessions) integers(args []string) (*open, []int, error) {
	var out []int
	for _, text := range args {
		v, err := strconv.Atoi(text)
		if err != nil {
			return nil, nil, errors.Errorf("%q is not a whole number", text)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, nil, nil
	}
	s, ok := ss.sessions[out[0]]
	if !ok {
		return nil, nil, errors.Errorf("session %d is not open", out[0])
	}
	return s, out, nil
}

// opened is the answer of open.
type opened struct {
	Session  int      `json:"session"`
	Setup    Setup    `json:"setup"`
	Snapshot Snapshot `json:"snapshot"`
	Warning  string   `json:"warning,omitempty"` // the list was cut off at an action that has no meaning
}

// open opens a session: a Setup, a File or a link.
func (ss *Sessions) open(text string) (any, error) {
	text = strings.TrimSpace(text)
	var f File
	if strings.HasPrefix(text, linkPrefix) || strings.Contains(text, `"schema"`) {
		var err error
		if f, err = ParseFile(text); err != nil {
			return nil, err
		}
	} else if err := json.Unmarshal([]byte(text), &f.Setup); err != nil {
		return nil, errors.WithMessage(err, "not a setup")
	} else if l, ok := findLesson(f.Setup.Lesson); ok {
		f.Actions = l.Start
	}
	s, err := Replay(f.Setup, f.Actions)
	if s == nil {
		return nil, err
	}
	ss.last++
	ss.sessions[ss.last] = &open{Session: s}
	answer := opened{Session: ss.last, Setup: s.Setup(), Snapshot: s.Snapshot(0)}
	if err != nil {
		answer.Warning = err.Error()
	}
	return answer, nil
}

func (ss *Sessions) close(s *open, number int) (any, error) {
	delete(ss.sessions, number)
	if s.past != nil {
		if err := s.past.Close(); err != nil {
			return nil, err
		}
	}
	return true, s.Close()
}

// do carries out an action and returns what has changed.
func (s *open) do(text string) (any, error) {
	a, err := action.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	before := len(s.actions)
	if _, err := s.Do(a); err != nil {
		return nil, err
	}
	return s.Snapshot(before), nil
}

// back takes actions back: the last n.
func (s *open) back(n int) (any, error) {
	replayed, err := s.Back(n)
	if err != nil {
		return nil, err
	}
	s.Session = replayed
	if s.past != nil && len(s.past.actions) > len(s.actions) { // it has actions that were taken back
		if err := s.past.Close(); err != nil {
			return nil, err
		}
		s.past = nil
	}
	return s.Snapshot(0), nil
}

// peek returns the snapshot after the first n actions. The session itself stays where it is.
func (s *open) peek(n, since int) (any, error) {
	past, err := s.upTo(n)
	if err != nil {
		return nil, err
	}
	return past.Snapshot(since), nil
}

// upTo returns the second session after the first n actions. Going forward replays only what lies
// between.
func (s *open) upTo(n int) (*Session, error) {
	if n < 0 || n > len(s.actions) {
		return nil, errors.Errorf("action %d: the session has %d", n, len(s.actions))
	}
	if s.past == nil || len(s.past.actions) > n {
		if s.past != nil {
			if err := s.past.Close(); err != nil {
				return nil, err
			}
		}
		var err error
		if s.past, err = New(s.setup); err != nil {
			return nil, err
		}
	}
	for i := len(s.past.actions); i < n; i++ {
		if _, err := s.past.Do(s.actions[i]); err != nil {
			return nil, err
		}
	}
	return s.past, nil
}
