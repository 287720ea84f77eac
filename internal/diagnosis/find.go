// Finding an entry by name, by number or by words.

package diagnosis

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Find returns the entries that words ask for, the best first. The words are names, with or
// without their C prefix; one number, which "errno", "status" or "event" may precede; or words
// of a symptom. An entry answers names if it has all of them. Find returns nil if no entry
// answers.
func Find(words ...string) []*Entry {
	kind := Kind("")
	if len(words) == 2 && slices.Contains([]Kind{Errno, Status, Event}, Kind(words[0])) {
		kind = Kind(words[0])
	}
	if len(words) == 1 || kind != "" {
		if n, err := strconv.Atoi(words[len(words)-1]); err == nil {
			return pick(func(e *Entry) bool {
				return e.Number == n && len(e.Calls) == 0 && (kind == e.Kind || kind == "" && e.Kind != Symptom)
			})
		}
	}
	if found := pick(func(e *Entry) bool { return e.Key == strings.Join(words, " ") }); found != nil {
		return found
	}
	if kind != "" {
		return pick(func(e *Entry) bool { return e.Kind == kind && e.has(words[1]) })
	}
	for _, word := range words {
		if pick(func(e *Entry) bool { return e.has(word) }) != nil {
			continue
		}
		if len(words) == 1 && strings.Contains(word, "_") {
			return nil // a wrong name; its parts mean nothing
		}
		return similar(words)
	}
	return pick(func(e *Entry) bool {
		return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool { return !e.has(word) })
	})
}

// pick returns the entries that are wanted: those of any call first, then those of certain
// calls, then symptoms.
func pick(wanted func(*Entry) bool) []*Entry {
	var found []*Entry
	for _, e := range entries {
		if wanted(e) {
			found = append(found, e)
		}
	}
	slices.SortStableFunc(found, func(a, b *Entry) int { return cmp.Compare(a.rank(), b.rank()) })
	return found
}

func (e *Entry) rank() int {
	switch {
	case e.Kind == Symptom:
		return 2
	case len(e.Calls) > 0:
		return 1
	}
	return 0
}

// has reports whether name is the entry's name, one of its calls, or one that its symptom
// comes with.
func (e *Entry) has(name string) bool {
	return e.Name != "" && isName(e.Name, name) ||
		slices.ContainsFunc(e.Calls, func(call string) bool { return isName(call, name) }) ||
		slices.ContainsFunc(e.About, func(about string) bool { return isName(about, name) })
}

// isName reports whether word stands for a C name: "retry_exc" for IBV_WC_RETRY_EXC_ERR, and
// "reg_mr" for ibv_reg_mr.
func isName(name, word string) bool {
	whole, word := short(strings.ToUpper(name)), strings.ToUpper(word)
	bare := short(word)
	return bare == whole || bare+"_ERR" == whole && (bare != word || strings.Contains(bare, "_")) || "IBV_"+word == whole
}

// similar returns the entries whose texts have the most of the words, if that is at least
// half of them.
func similar(words []string) []*Entry {
	asked := tokens(strings.Join(words, " "))
	points := make(map[*Entry]int) // 1000 for each word, and the weights
	best := 0
	for _, e := range entries {
		have, weight := 0, 0
		for _, word := range asked {
			if w := e.weigh(word); w > 0 {
				have, weight = have+1, weight+w
			}
		}
		if 2*have >= len(asked) && have > 0 {
			points[e] = have*1000 + weight
			best = max(best, have)
		}
	}
	found := pick(func(e *Entry) bool { return best > 0 && points[e]/1000 == best })
	slices.SortStableFunc(found, func(a, b *Entry) int { return cmp.Compare(points[b], points[a]) })
	return found[:min(len(found), 5)]
}

// place is the words of one of an entry's texts, and what finding one there counts.
type place struct {
	words  []string
	weight int
}

// places has the texts of all entries in words.
var places = sync.OnceValue(func() map[*Entry][]place {
	all := make(map[*Entry][]place)
	for _, e := range entries {
		names := e.Title() + " " + e.Name + " " + e.Text + " " + strings.Join(e.About, " ")
		all[e] = []place{{tokens(e.Symptom), 4}, {tokens(names), 3}, {tokens(e.Cause), 2}, {tokens(e.Remedy), 1}}
	}
	return all
})

// weigh rates the place where an entry has a word: 0 if it does not have the word.
func (e *Entry) weigh(word string) int {
	for _, p := range places()[e] {
		for _, have := range p.words {
			if have == word || len(word) >= 4 && strings.HasPrefix(have, word) || len(have) >= 4 && strings.HasPrefix(word, have) {
				return p.weight
			}
		}
	}
	return 0
}

// common are words that tell no entry from another.
var common = strings.Fields("a an and are at by do does i in is it its my of on or the to was what when why with")

// tokens returns the words of a text in lower case, without the common ones.
func tokens(text string) []string {
	var all []string
	for _, word := range strings.FieldsFunc(strings.ToLower(Plain(text)), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !slices.Contains(common, word) {
			all = append(all, word)
		}
	}
	return all
}
