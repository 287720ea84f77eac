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

// calls are what a page can call, with the number of arguments.
var calls = map[string]struct {
	args int
	do   func(ss *Sessions, args []string) (any, error)
}{
	"tables":   {0, func(*Sessions, []string) (any, error) { return AllTables(), nil }},
	"open":     {1, (*Sessions).open},
	"close":    {1, (*Sessions).close},
	"do":       {2, (*Sessions).do},
	"snapshot": {2, (*Sessions).snapshot},
	"back":     {2, (*Sessions).back},
	"peek":     {3, (*Sessions).peek},
	"packet":   {2, (*Sessions).packet},
	"file":     {1, (*Sessions).file},
	"link":     {1, (*Sessions).link},
	"record":   {1, (*Sessions).record},
	"program":  {2, (*Sessions).program},
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
	value, err := c.do(ss, args)
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

func integer(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

// integers reads the first arguments as numbers, and the first of them as a session.
func (ss *Sessions) integers(args []string, n int) (*open, []int, error) {
	var out []int
	for _, text := range args[:n] {
		v, err := integer(text)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, v)
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
func (ss *Sessions) open(args []string) (any, error) {
	text := strings.TrimSpace(args[0])
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

func (ss *Sessions) close(args []string) (any, error) {
	s, n, err := ss.integers(args, 1)
	if err != nil {
		return nil, err
	}
	delete(ss.sessions, n[0])
	if s.past != nil {
		if err := s.past.Close(); err != nil {
			return nil, err
		}
	}
	return true, s.Close()
}

// do carries out an action and returns what has changed.
func (ss *Sessions) do(args []string) (any, error) {
	s, _, err := ss.integers(args, 1)
	if err != nil {
		return nil, err
	}
	a, err := action.Parse([]byte(args[1]))
	if err != nil {
		return nil, err
	}
	before := len(s.actions)
	if _, err := s.Do(a); err != nil {
		return nil, err
	}
	return s.Snapshot(before), nil
}

func (ss *Sessions) snapshot(args []string) (any, error) {
	s, n, err := ss.integers(args, 2)
	if err != nil {
		return nil, err
	}
	return s.Snapshot(n[1]), nil
}

// back takes actions back: the last n.
func (ss *Sessions) back(args []string) (any, error) {
	s, n, err := ss.integers(args, 2)
	if err != nil {
		return nil, err
	}
	replayed, err := s.Back(n[1])
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
func (ss *Sessions) peek(args []string) (any, error) {
	s, n, err := ss.integers(args, 3)
	if err != nil {
		return nil, err
	}
	past, err := s.upTo(n[1])
	if err != nil {
		return nil, err
	}
	return past.Snapshot(n[2]), nil
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

func (ss *Sessions) packet(args []string) (any, error) {
	s, n, err := ss.integers(args, 2)
	if err != nil {
		return nil, err
	}
	return s.Packet(n[1])
}

func (ss *Sessions) file(args []string) (any, error) {
	s, _, err := ss.integers(args, 1)
	if err != nil {
		return nil, err
	}
	return s.File(), nil
}

func (ss *Sessions) link(args []string) (any, error) {
	s, _, err := ss.integers(args, 1)
	if err != nil {
		return nil, err
	}
	return s.Link()
}

func (ss *Sessions) record(args []string) (any, error) {
	s, _, err := ss.integers(args, 1)
	if err != nil {
		return nil, err
	}
	return s.Record()
}

// program returns the session as a program: "c" or "go".
func (ss *Sessions) program(args []string) (any, error) {
	s, _, err := ss.integers(args, 1)
	if err != nil {
		return nil, err
	}
	return s.Program(args[1])
}
