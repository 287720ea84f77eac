package mistake

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// onlySoft are the mistakes that only soft0 shows.
var onlySoft = []string{"port-blocked", "lost-packet"}

func run(t *testing.T, m Mistake) *Report {
	t.Helper()
	r, err := m.Run(t.Context(), Options{Device: softtest.Name(t), patience: testkit.Limit})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// printed is the report as text, of which no line is longer than 80 columns.
func printed(t *testing.T, r *Report) string {
	t.Helper()
	text := r.Text()
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	return text
}

// TestMistakes makes each mistake and asks whether the device kept the promise.
func TestMistakes(t *testing.T) {
	for _, m := range all() {
		t.Run(m.Name, func(t *testing.T) {
			r := run(t, m)
			t.Log("\n" + printed(t, r))
			if err := r.Err(); err != nil {
				t.Error(err)
			}
			if unsupported := r.Unsupported != ""; unsupported != (!softtest.Soft && slices.Contains(onlySoft, m.Name)) {
				t.Errorf("unsupported: %q", r.Unsupported)
			}
			if softtest.Soft && r.Differs != "" {
				t.Errorf("soft0 differs: %s", r.Differs)
			}
			var object map[string]any
			if text, err := json.Marshal(r); err != nil || json.Unmarshal(text, &object) != nil || object["name"] != m.Name {
				t.Errorf("as JSON: %s, %v", text, err)
			}
		})
	}
}

// imperatives begin remedies.
var imperatives = strings.Fields("Agree Ask Capture Check Compare Drop Exchange Keep Move Post Print Put Register Set Signal")

// TestTexts looks for texts that are missing or are not sentences.
func TestTexts(t *testing.T) {
	names := map[string]bool{}
	for _, m := range all() {
		if names[m.Name] {
			t.Errorf("two mistakes have the name %s", m.Name)
		}
		names[m.Name] = true
		for _, text := range []string{m.Setting, m.Question, m.Why, m.Remedy} {
			if text == "" || !strings.ContainsAny(text[len(text)-1:], ".?") {
				t.Errorf("%s: not a sentence: %q", m.Name, text)
			}
		}
		if first, _, _ := strings.Cut(m.Remedy, " "); !slices.Contains(imperatives, first) {
			t.Errorf("%s: %q does not begin with an imperative", m.Name, m.Remedy)
		}
		if m.Title == "" || len(m.Title) > 57 {
			t.Errorf("%s: the title has %d bytes, want 1 to 57, for a line of --list", m.Name, len(m.Title))
		}
	}
}

// TestBrokenPromises shows that a run notices what a device must not do.
func TestBrokenPromises(t *testing.T) {
	right, _ := Find("no-receive")
	state := right.Expect.Client.State
	for name, spoil := range map[string]func(e *expect){
		"another status":   func(e *expect) { e.Client = outcome(state, verbs.WCRetryExcErr) },
		"an errno":         func(e *expect) { e.Client = outcome(state, syscall.EINVAL) },
		"one more":         func(e *expect) { e.Server = outcome(qpstate.RTS, verbs.WCSuccess) },
		"one fewer":        func(e *expect) { e.Client = outcome(state) },
		"another state":    func(e *expect) { e.Server = outcome(qpstate.RTR) },
		"the ends swapped": func(e *expect) { e.Client, e.Server = e.Server, e.Client },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, patience := right, testkit.Limit
			spoil(&m.Expect)
			if m.Expect.Server.State != right.Expect.Server.State || len(m.Expect.Server.Saw) > 0 { // what never comes
				patience = testkit.Moment
			}
			r, err := m.Run(t.Context(), Options{Device: softtest.Name(t), patience: patience})
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Err(); err == nil || !strings.Contains(err.Error(), "no-receive on ") {
				t.Errorf("the error is %v", err)
			}
			if text := printed(t, r); !strings.Contains(text, "This breaks the promise: ") || strings.Contains(text, "As promised") {
				t.Error(text)
			}
		})
	}
}

// TestVariants shows that what other devices may report counts for them alone.
func TestVariants(t *testing.T) {
	m, _ := Find("no-receive")
	m.Also = []variant{{m.Expect, "because"}}
	m.Expect = expect{Client: outcome(qpstate.Error), Server: outcome(qpstate.RTS)}
	r := run(t, m)
	if kept := r.Err() == nil; kept == softtest.Soft {
		t.Errorf("the error is %v", r.Err())
	}
}

func TestStopped(t *testing.T) {
	m, _ := Find("no-receive")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := syscall.EINTR
	cancel(cause)
	if _, err := m.Run(ctx, Options{Device: softtest.Name(t)}); err == nil || !strings.Contains(err.Error(), cause.Error()) {
		t.Errorf("the run ended with %v", err)
	}
}

// TestStoppedWaits: the end of the context also ends the waits that are not for a completion.
func TestStoppedWaits(t *testing.T) {
	waits := map[string]func(b *bench){"for a state": func(b *bench) { b.client.state(qpstate.Error) }}
	if softtest.Soft { // other devices do not show their packets
		waits["for a packet"] = func(b *bench) { b.seen("nothing says this") }
	}
	for name, wait := range waits {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			m := Mistake{run: func(b *bench) {
				cancel(syscall.EINTR)
				wait(b)
			}, Expect: expect{Client: outcome(qpstate.Reset), Server: outcome(qpstate.Reset)}}
			if _, err := m.Run(ctx, Options{Device: softtest.Name(t), patience: testkit.Limit}); !errors.Is(err, syscall.EINTR) {
				t.Errorf("the run ended with %v", err)
			}
		})
	}
}

func TestAbout(t *testing.T) {
	for words, want := range map[string][]string{
		"rkey":        {"bad-rkey", "lkey-as-rkey"},
		"THE_RKEY":    {"bad-rkey", "lkey-as-rkey"},
		"firewall":    {"port-blocked"},
		"disconnects": {"early-disconnect"},
		"xyz":         nil,
		"":            nil,
	} {
		if got := About(words); !slices.Equal(got, want) {
			t.Errorf("About(%q) is %v, want %v", words, got, want)
		}
	}
}
