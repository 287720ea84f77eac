package diagnosis

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestEntriesAreWhole(t *testing.T) {
	keys := make(map[string]bool)
	answers := make(map[errnoOfCall]string)
	for _, e := range entries {
		if e.Cause == "" || e.Remedy == "" || e.Lesson == "" || e.Key == "" {
			t.Errorf("%+v lacks a text", e)
		}
		if keys[e.Key] {
			t.Errorf("two entries have the key %q", e.Key)
		}
		keys[e.Key] = true
		if (e.Kind == Symptom) != (e.Name == "") || (e.Kind == Symptom) != (e.Number < 0) {
			t.Errorf("%s: a symptom has no name and number, anything else has both", e.Key)
		}
		if e.Kind == Symptom && e.Symptom == "" {
			t.Errorf("%s has no symptom", e.Key)
		}
		if e.Memlock != strings.HasSuffix(e.Remedy, memlock) {
			t.Errorf("%s: Memlock does not agree with the remedy %q", e.Key, e.Remedy)
		}
		if text := e.Cause + e.Remedy; (e.Kind == Errno || e.Kind == Status) && Plain(text) != text {
			t.Errorf("%s: %q goes into errors and must have no Markdown", e.Key, text)
		}
		for _, text := range []string{e.Symptom, e.Cause, e.Remedy} {
			if strings.TrimSpace(text) != text || strings.HasSuffix(text, ".") || strings.Contains(text, "\n") || strings.HasPrefix(text, "try") {
				t.Errorf("%s: %q is not a clause", e.Key, text)
			}
		}
		if first := strings.Fields(Plain(strings.TrimPrefix(e.Remedy, "on RoCE ")))[0]; !slices.Contains(imperatives, first) {
			t.Errorf("%s: %q does not begin with an imperative", e.Key, e.Remedy)
		}
		if strings.HasSuffix(e.Cause, "?") || strings.Contains(e.Cause+e.Remedy, "try:") {
			t.Errorf("%s: %q cannot stand before \"; try: \", or %q after it", e.Key, e.Cause, e.Remedy)
		}
		if e.Kind != Errno {
			continue
		}
		for _, call := range append(e.Calls, "")[:max(1, len(e.Calls))] {
			at := errnoOfCall{call, syscall.Errno(e.Number)}
			if other := answers[at]; other != "" {
				t.Errorf("%s and %s answer the same call", e.Key, other)
			}
			answers[at] = e.Key
		}
	}
}

// imperatives begin remedies, which follow "try: ".
var imperatives = strings.Fields("add arm ask bind call change check choose close compare connect convert copy detach do exchange find give import " +
	"invalidate keep leave list load look make map mend move open ping poll post raise read receive register run send set start use wait")

// TestRemediesDoNotHide: RNR_RETRY 7 hides that receives are missing, as docs/mistakes.md says, so no remedy asks for it.
func TestRemediesDoNotHide(t *testing.T) {
	for _, e := range entries {
		if strings.Contains(e.Remedy, "RNR_RETRY 7") {
			t.Errorf("%s: %q", e.Key, e.Remedy)
		}
	}
}

// TestLessonsExist looks for the page and the place of each lesson.
func TestLessonsExist(t *testing.T) {
	anchors := make(map[string]string)
	for _, e := range entries {
		page, place, _ := strings.Cut(e.Lesson, "#")
		if anchors[page] == "" {
			text, err := os.ReadFile("../../" + page)
			if err != nil {
				t.Fatalf("%s: %v", e.Key, err)
			}
			for _, found := range regexp.MustCompile(`(?m)^#+ (.*)$|<a id="([^"]+)">`).FindAllStringSubmatch(string(text), -1) {
				heading := strings.ReplaceAll(strings.ToLower(found[1]), " ", "-")
				anchors[page] += "#" + heading + found[2] + "\n"
			}
		}
		if place != "" && !strings.Contains(anchors[page], "#"+place+"\n") {
			t.Errorf("%s: %s has no place %q", e.Key, page, place)
		}
	}
}

// TestEveryNumberOnce: statuses and events are numbered without gaps.
func TestEveryNumberOnce(t *testing.T) {
	for kind, count := range map[Kind]int{Status: 24, Event: 20} {
		var numbers []int
		for _, e := range entries {
			if e.Kind == kind {
				numbers = append(numbers, e.Number)
			}
		}
		for i, n := range numbers {
			if n != i {
				t.Errorf("%s %d stands at %d", kind, n, i)
			}
		}
		if len(numbers) != count {
			t.Errorf("%d entries of kind %s, want %d", len(numbers), kind, count)
		}
	}
}

func TestAboutNamesExist(t *testing.T) {
	var known []string
	for _, e := range entries {
		if known = append(known, e.Calls...); e.Kind != Symptom {
			known = append(known, e.Name)
		}
	}
	for _, e := range entries {
		for _, name := range e.About {
			if !slices.Contains(known, name) {
				t.Errorf("%s is about %s, which no entry has", e.Key, name)
			}
		}
	}
}

func TestOfCall(t *testing.T) {
	for _, c := range []struct {
		call  string
		errno syscall.Errno
		want  string
	}{
		{"ibv_reg_mr", syscall.ENOMEM, "ibv_reg_mr ENOMEM"},
		{"ibv_rereg_mr", syscall.EBUSY, "ibv_dereg_mr ibv_rereg_mr EBUSY"},
		{"ibv_create_flow", syscall.ENOMEM, "errno ENOMEM"},
		{"ibv_create_flow", syscall.EINVAL, ""}, // too broad for an error's text
		{"ibv_reg_mr", syscall.ENOTTY, ""},
	} {
		got := ""
		if e := OfCall(c.call, c.errno); e != nil {
			got = e.Key
		}
		if got != c.want {
			t.Errorf("%s %v: got %q, want %q", c.call, c.errno, got, c.want)
		}
	}
	if e := OfStatus(12); e == nil || e.Short() != "RETRY_EXC_ERR" {
		t.Errorf("status 12 is %+v", e)
	}
	if e := OfStatus(99); e != nil {
		t.Errorf("status 99 is %+v", e)
	}
	if got := ErrnoName(syscall.ENODEV) + ErrnoName(4000); got != "ENODEV" {
		t.Errorf("got %q", got)
	}
}
