// The words of the field: the terms of docs/glossary.md, the states of docs/qp-states.md, mask bits and flags.

package lab

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/rawverbs/rawverbs/docs"
	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

// Term is a word of the field and what it means.
type Term struct {
	Kind   string `json:"kind"` // "term", "state", "mask bit" or "flag"
	Name   string `json:"name"`
	Text   string `json:"text"`
	Lesson string `json:"lesson"`

	asks [][]string // the words that ask for it, in lower case
}

// terms returns all terms, those of the glossary first.
var terms = sync.OnceValue(func() []Term {
	return slices.Concat(glossary(), stateTerms(), maskTerms(), flagTerms())
})

// entry matches one of the glossary: its place, its name, what stands before the colon, and the sentences.
var entry = regexp.MustCompile(`(?m)^- <a id="([^"]+)"></a>\*\*([^*]+)\*\*([^:]*): (.*(?:\n  .*)*)`)

// inC matches a name of C in an entry.
var inC = regexp.MustCompile("`([a-z_]+)`")

func glossary() (all []Term) {
	for _, m := range entry.FindAllStringSubmatch(docs.Glossary, -1) {
		long, _, _ := strings.Cut(m[3], "(")
		t := Term{Kind: "term", Name: diagnosis.Plain(m[2] + m[3]), Text: strings.TrimSuffix(diagnosis.Plain(strings.Join(strings.Fields(m[4]), " ")), "."), Lesson: "docs/glossary.md#" + m[1]}
		t.asked(m[1])
		names := strings.Split(strings.ReplaceAll(m[2]+","+long, " and ", ","), ",")
		if m[1] == "states" {
			names = nil // each is a term of its own
		}
		for _, c := range inC.FindAllStringSubmatch(m[3]+m[4], -1) {
			names = append(names, c[1])
		}
		for _, name := range names {
			t.asked(name)
		}
		all = append(all, t)
	}
	return all
}

// state is a row of the table in docs/qp-states.md.
type state struct{ Receives, Sends, Set string }

// stateTable returns the rows by the names of the states.
var stateTable = sync.OnceValue(func() map[string]state {
	rows := map[string]state{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z]+) \| (.*?) \| (.*?) \| (.*?) ?\|$`).FindAllStringSubmatch(docs.QPStates, -1) {
		rows[m[1]] = state{diagnosis.Plain(m[2]), diagnosis.Plain(m[3]), diagnosis.Plain(m[4])}
	}
	return rows
})

func stateTerms() (all []Term) {
	for _, s := range qpstate.States() {
		row := stateTable()[s.Name()]
		t := Term{Kind: "state", Name: s.Name(), Lesson: "docs/qp-states.md",
			Text: fmt.Sprintf("receives: %s. Sends: %s. \"rdma_lab states %s\" lists the moves from here", row.Receives, row.Sends, s.Name())}
		t.asked(s.Name())
		t.asked(s.String())
		all = append(all, t)
	}
	return all
}

func maskTerms() (all []Term) {
	for bit := qpstate.Mask(1); bit != 0; bit <<= 1 {
		if bit.About() == "" {
			continue // libibverbs has no such bit
		}
		t := Term{Kind: "mask bit", Name: bit.String(), Lesson: "docs/qp-states.md", Text: bit.About()}
		if moves := takers(qpstate.RC, bit); len(moves) > 0 {
			t.Text += ". Moves of RC that take it: " + strings.Join(moves, ", ")
		}
		t.asked(bit.Name())
		t.asked(bit.String())
		all = append(all, t)
	}
	return all
}

// flags say what the access flags and the send flags do.
var flags = []struct{ name, text string }{
	{verbs.AccessLocalWrite.String(), "receives, READs and atomics of this side may write to the region; remote rights to write need it too"},
	{verbs.AccessRemoteWrite.String(), "the peer may WRITE: the region and the queue pair both need it"},
	{verbs.AccessRemoteRead.String(), "the peer may READ: the region and the queue pair both need it"},
	{verbs.AccessRemoteAtomic.String(), "the peer may do atomics: the region and the queue pair both need it"},
	{verbs.AccessMWBind.String(), "memory windows may be bound to the region"},
	{verbs.AccessZeroBased.String(), "addresses of the region count from 0"},
	{verbs.AccessOnDemand.String(), "pages may be absent until they are used"},
	{verbs.AccessFlushGlobal.String(), "the peer may flush its writes until all CPUs and devices see them"},
	{verbs.AccessFlushPersistent.String(), "the peer may flush its writes to persistent memory"},
	{verbs.AccessHugeTLB.String(), "a hint: the memory consists of huge pages"},
	{verbs.AccessRelaxedOrdering.String(), "the device may write the bytes in any order"},
	{verbs.SendFence.String(), "the request waits for this queue pair's earlier READs and atomics"},
	{verbs.SendSignaled.String(), "the request produces a completion when it succeeds"},
	{verbs.SendSolicited.String(), "the message wakes a peer that waits for solicited completions only"},
	{verbs.SendInline.String(), "the post copies the data, so the buffer is free at once"},
}

func flagTerms() (all []Term) {
	for _, f := range flags {
		t := Term{Kind: "flag", Name: f.name, Text: f.text, Lesson: "docs/glossary.md#wr"}
		if strings.HasPrefix(f.name, "IBV_ACCESS_") {
			t.Lesson = "docs/glossary.md#mr"
		}
		_, rest, _ := strings.Cut(f.name, "IBV_")
		_, short, _ := strings.Cut(rest, "_")
		t.asked(f.name)
		t.asked(short)
		all = append(all, t)
	}
	return all
}

func (t *Term) asked(name string) {
	if words := asking(name); len(words) > 0 {
		t.asks = append(t.asks, words)
	}
}

// asking returns the words of a query in lower case, without those of a question.
func asking(query string) (words []string) {
	split := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	for word := range strings.FieldsSeq(strings.ToLower(query)) {
		parts := strings.FieldsFunc(word, split)
		if len(parts) == 1 && slices.Contains(ofQuestions, parts[0]) {
			continue
		}
		words = append(words, parts...)
	}
	return words
}

var ofQuestions = strings.Fields("what whats is are a an the does do mean means meaning of in for explain flag state bit mask")

// findTerms returns the terms that a query names, and the bits and flags that have its only word in their names.
func findTerms(words []string) (found []Term) {
	for _, t := range terms() {
		part := len(words) == 1 && len(words[0]) > 2 && t.Kind != "term" && slices.ContainsFunc(t.asks, func(names []string) bool { return slices.Contains(names, words[0]) })
		if part || slices.ContainsFunc(t.asks, func(names []string) bool { return slices.Equal(names, words) }) {
			found = append(found, t)
		}
	}
	return found
}

// about reports whether an entry is about words: it has their name, or its symptom or its name has them all.
func about(e *diagnosis.Entry, words []string) bool {
	has := asking(e.Symptom + " " + e.Name)
	return e.Key == strings.Join(words, " ") || !slices.ContainsFunc(words, func(word string) bool { return !slices.Contains(has, word) })
}
