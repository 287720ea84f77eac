// Package diagnosis has what is known about the errors of verbs: errnos, the errnos of single
// calls, completion statuses, asynchronous events and symptoms, each with its causes and
// remedies. The errors of package verbs, rdma_lab and docs/errors.md use the same entries.
package diagnosis

import (
	"slices"
	"strings"
	"syscall"
)

// Kind says what an entry is about.
type Kind string

// The kinds.
const (
	Errno   Kind = "errno"   // an error number, from any call or from certain calls
	Status  Kind = "status"  // how a work request ended (enum ibv_wc_status)
	Event   Kind = "event"   // an asynchronous event (enum ibv_event_type)
	Symptom Kind = "symptom" // something a person sees
)

// Entry is one thing that goes wrong. Its texts are Markdown; [Plain] makes them plain. The
// texts of an Errno and a Status are plain already.
type Entry struct {
	Key     string   // identifies the entry: "status RETRY_EXC_ERR", "ibv_reg_mr ENOMEM"
	Kind    Kind     // what the entry is about
	Name    string   // the C name; "" for a Symptom
	Number  int      // of the C name, on this system; -1 for a Symptom
	Text    string   // what C prints for it: strerror, ibv_wc_status_str, ibv_event_type_str
	Calls   []string // Errno: the C calls that it is about; none: any call
	Symptom string   // what a person sees; "" if Name and Calls say it
	Cause   string   // what it means, and why it happens
	Remedy  string   // what to try
	Lesson  string   // the page, and the place on it, that teaches more
	About   []string // Symptom: the C names that it comes with

	Section Section // the list of docs/errors.md that has the entry, if one has it
	Memlock bool    // the limit of locked memory is at the end of Remedy
	Broad   bool    // Remedy is too general for the text of an error
}

// entries has every entry, in the order of docs/errors.md where that has them.
var entries = build()

// build fills in the fields that follow from others.
func build() []*Entry {
	var all []*Entry
	for _, g := range [][]group{finding, errnos, deviceCalls, memoryCalls, queueCalls, transitions, posts, rules, statuses, events, symptoms} {
		for _, of := range g {
			for i := range of.entries {
				e := &of.entries[i]
				if e.Lesson == "" {
					e.Lesson = of.lesson
				}
				switch e.Kind {
				case Symptom:
					e.Number = -1
				case Errno:
					e.Text = syscall.Errno(e.Number).Error()
				}
				if e.Key == "" {
					e.Key = key(e)
				}
				all = append(all, e)
			}
		}
	}
	return all
}

// group is entries that belong to one lesson.
type group struct {
	lesson  string
	entries []Entry
}

func key(e *Entry) string {
	if len(e.Calls) > 0 {
		return strings.Join(e.Calls, " ") + " " + e.Name
	}
	return string(e.Kind) + " " + e.Short()
}

// Entries returns all entries. They are shared: do not change them.
func Entries() []*Entry { return slices.Clone(entries) }

// Short returns the name without its C prefix: "RETRY_EXC_ERR".
func (e *Entry) Short() string { return short(e.Name) }

func short(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(name, "IBV_WC_"), "IBV_EVENT_")
}

type errnoOfCall struct {
	call  string // "" for any call
	errno syscall.Errno
}

var byCall = indexCalls()

func indexCalls() map[errnoOfCall]*Entry {
	index := make(map[errnoOfCall]*Entry)
	for _, e := range entries {
		switch {
		case e.Kind != Errno:
		case len(e.Calls) == 0:
			index[errnoOfCall{"", syscall.Errno(e.Number)}] = e
		}
		for _, call := range e.Calls {
			index[errnoOfCall{call, syscall.Errno(e.Number)}] = e
		}
	}
	return index
}

// OfCall returns the entry of an errno that a C call returned: the entry of that call, or
// else the one of any call. It returns nil if neither has advice for an error's text.
func OfCall(call string, errno syscall.Errno) *Entry {
	if e := byCall[errnoOfCall{call, errno}]; e != nil {
		return e
	}
	if e := byCall[errnoOfCall{"", errno}]; e != nil && !e.Broad {
		return e
	}
	return nil
}

// OfStatus returns the entry of a completion status, or nil for an unknown one.
func OfStatus(number uint32) *Entry {
	for _, e := range entries {
		if e.Kind == Status && e.Number == int(number) {
			return e
		}
	}
	return nil
}

// ByKey returns the entry with a key, or nil.
func ByKey(key string) *Entry { return byKey[key] }

var byKey = indexKeys()

func indexKeys() map[string]*Entry {
	index := make(map[string]*Entry)
	for _, e := range entries {
		index[e.Key] = e
	}
	return index
}

// ErrnoName returns the C name of an errno, "EINVAL", or "" for one without an entry.
func ErrnoName(errno syscall.Errno) string {
	if e := byCall[errnoOfCall{"", errno}]; e != nil {
		return e.Name
	}
	return ""
}
