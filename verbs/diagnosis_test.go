package verbs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

// TestDiagnosisKnowsTheNames compares the entries with the names of this package: each status
// and event has an entry with its number and name.
func TestDiagnosisKnowsTheNames(t *testing.T) {
	names := make(map[diagnosis.Kind]map[int]string)
	for _, e := range diagnosis.Entries() {
		if names[e.Kind] == nil {
			names[e.Kind] = make(map[int]string)
		}
		if len(e.Calls) == 0 {
			names[e.Kind][e.Number] = e.Name
		}
	}
	for kind, name := range map[diagnosis.Kind]func(int) string{
		diagnosis.Status: func(n int) string { return WCStatus(n).String() },
		diagnosis.Event:  func(n int) string { return EventType(n).String() },
	} {
		count := 0
		for ; !strings.HasSuffix(name(count), ")"); count++ { // a number without a name prints as kind(number)
			if got := names[kind][count]; got != name(count) {
				t.Errorf("%s %d is %q, its entry has %q", kind, count, name(count), got)
			}
		}
		if count != len(names[kind]) {
			t.Errorf("this package names %d of kind %s, and %d have an entry", count, kind, len(names[kind]))
		}
	}
}

// TestDiagnosisKnowsTheErrnos looks for an entry of every errno that the code names, with the
// name of the system.
func TestDiagnosisKnowsTheErrnos(t *testing.T) {
	named := regexp.MustCompile(`\b(?:syscall|errno)\.(E[A-Z0-9]+|NoData)\b`)
	known := make(map[string]bool)
	for _, e := range diagnosis.Entries() {
		if e.Kind == diagnosis.Errno {
			known[e.Name] = true
		}
	}
	found := 0
	for _, dir := range []string{".", "../rc", "../softroce", "../softroce/internal/transport", "../softroce/internal/link", "../internal/diagnosis/errno"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", dir, files, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range named.FindAllStringSubmatch(string(text), -1) {
				name := strings.Replace(match[1], "NoData", "ENODATA", 1)
				found++
				if !known[name] && name != "ENOTSUP" && name != "ENOATTR" { // other names of EOPNOTSUPP and ENODATA
					t.Errorf("%s names %s, which has no entry", file, name)
				}
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names of errnos were found", found)
	}
}

// TestEveryRuleExists: the rules that hints_post.go names have entries, and all of these are
// named.
func TestEveryRuleExists(t *testing.T) {
	text, err := os.ReadFile("hints_post.go")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, match := range regexp.MustCompile(`(?:broken|elementsFault|diagnosis\.ByKey)\("([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		named[match[1]] = true
		if e := diagnosis.ByKey(match[1]); e == nil || diagnosis.Plain(e.Remedy) != e.Remedy {
			t.Errorf("the rule %q has no entry, or one with Markdown: %+v", match[1], e)
		}
	}
	for _, e := range diagnosis.Entries() {
		if refused := strings.HasSuffix(e.Symptom, " refuses a request"); refused != named[e.Key] {
			t.Errorf("hints_post.go names %q: %v; it is the rule of a post: %v", e.Key, named[e.Key], refused)
		}
	}
}
