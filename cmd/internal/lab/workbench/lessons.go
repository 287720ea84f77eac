// Lessons: what a lesson begins with, its goals, and a way to reach them. The texts are the page's;
// here are their keys. A goal is checked after each action, and once met it stays met.

package workbench

import (
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Lesson is a lesson.
type Lesson struct {
	ID       string
	Start    []Action // carried out before the user begins
	Goals    []Goal
	Answers  int      // how many answers the question at the end offers
	Right    int      // the right one, from 1 on
	Solution []Action // reaches all goals

	MTU     int   // of its world, where the setup has none; 0: the usual
	DelayNS int64 // the same
}

// Goal is something to reach.
type Goal struct {
	Key string
	Met func(g *glance) bool
}

// GoalState is a goal of the session's lesson.
type GoalState struct {
	Key string `json:"key"`
	Met int    `json:"met"` // number of the action that reached it; -1: not yet
}

// LessonView is a lesson for the page. The keys of its texts begin with "lesson.ID.": title, intro,
// goal.KEY, hint.KEY, question, answer.1 …, wrong.N of each wrong answer, why.
type LessonView struct {
	ID       string   `json:"id"`
	Goals    []string `json:"goals"`
	Answers  int      `json:"answers"`
	Right    int      `json:"right"`
	Start    []Action `json:"start"`
	Solution []Action `json:"solution"`
}

func lessonIDs() (ids []string) {
	for _, l := range lessons() {
		ids = append(ids, l.ID)
	}
	return ids
}

// findLesson returns a lesson, or a task of the examination.
func findLesson(id string) (Lesson, bool) {
	for _, l := range lessons() {
		if l.ID == id {
			return l, true
		}
	}
	for _, p := range exam() {
		if p.ID == id && len(p.Goals) > 0 {
			return p.Lesson, true
		}
	}
	return Lesson{}, false
}

func lessonViews() []LessonView {
	var views []LessonView
	for _, l := range lessons() {
		views = append(views, l.view())
	}
	return views
}

func (l *Lesson) view() LessonView {
	v := LessonView{ID: l.ID, Goals: []string{}, Answers: l.Answers, Right: l.Right, Start: append([]Action{}, l.Start...), Solution: append([]Action{}, l.Solution...)}
	for _, g := range l.Goals {
		v.Goals = append(v.Goals, g.Key)
	}
	return v
}

// checkGoals notes which goals the last action has reached.
func (s *Session) checkGoals() {
	g := &glance{s: s, action: &s.actions[len(s.actions)-1], result: s.results[len(s.results)-1]}
	for i, goal := range s.lesson.Goals {
		if s.goals[i].Met < 0 && goal.Met(g) {
			s.goals[i].Met = len(s.actions) - 1
		}
	}
}

// glance is what a goal looks at: the session after an action, the action and its result.
type glance struct {
	s      *Session
	action *Action
	result *Result
}

// The hosts by number, for goals.
const (
	client = 0
	server = 1
)

// open returns the open objects of a kind that a host has.
func (g *glance) open(host int, kind string) []*object {
	return slices.Collect(g.s.hosts[host].open(kind))
}

// count returns how many they are.
func (g *glance) count(host int, kind string) int { return len(g.open(host, kind)) }

// qps returns the open queue pairs of a host.
func (g *glance) qps(host int) []*object { return g.open(host, "QP") }

// state reports whether a host has a queue pair of a type in a state; type 0 is any.
func (g *glance) state(host int, t verbs.QPType, s qpstate.State) bool {
	return slices.ContainsFunc(g.qps(host), func(o *object) bool {
		in, _ := g.s.world.InspectQP(g.s.hosts[host].side, o.qp)
		return (t == 0 || o.qp.Type() == t) && in.Attr.State == s
	})
}

// refused reports whether the action was refused with an errno.
func (g *glance) refused(do, errno string) bool {
	return g.action.Do == do && g.result.Refused != nil && g.result.Refused.Errno == errno
}

// goal reports whether a goal of the lesson was met before.
func (g *glance) goal(key string) bool {
	return slices.ContainsFunc(g.s.goals, func(s GoalState) bool { return s.Key == key && s.Met >= 0 })
}

// polledNothing reports whether the action was a poll of a host that found nothing.
func (g *glance) polledNothing(host int) bool {
	return g.at("poll_cq", host) && len(g.result.Completions) == 0
}

// at reports whether the action is of a kind and at a host.
func (g *glance) at(do string, host int) bool {
	return g.action.Do == do && g.action.Host == g.s.hosts[host].side.String() && g.result.Refused == nil
}

// polled reports whether the action polled a completion at a host.
func (g *glance) polled(host int, status string, is func(*Completion) bool) bool {
	if g.action.Do != "poll_cq" || g.action.Host != g.s.hosts[host].side.String() {
		return false
	}
	return slices.ContainsFunc(g.result.Completions, func(c Completion) bool {
		return c.Status == status && (is == nil || is(&c))
	})
}

// holds reports whether an open region of a host has some bytes.
func (g *glance) holds(host int, text string) bool {
	return g.copies(host, text) > 0
}

// opcode is a test of a completion.
func opcode(name string) func(*Completion) bool {
	return func(c *Completion) bool { return c.Opcode == name }
}

// logged reports whether the last action logged an event whose message begins with a text.
func (g *glance) logged(text string) bool {
	for _, e := range slices.Backward(g.s.log) {
		if e.Action != len(g.s.actions)-1 {
			return false
		}
		if strings.HasPrefix(e.Message, text) {
			return true
		}
	}
	return false
}

// packet reports whether a packet that the last action sent or changed is as asked.
func (g *glance) packet(is func(*PacketView) bool) bool {
	packets := g.s.world.Packets()
	for i := len(packets) - 1; i >= 0; i-- {
		if g.s.touched[i] != len(g.s.actions) {
			continue
		}
		if v := g.s.packetView(packets[i]); is(&v) {
			return true
		}
	}
	return false
}
