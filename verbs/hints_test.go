package verbs

import (
	"os"
	"strings"
	"testing"
)

// says reports an error whose text lacks one of wants or has one of nots.
func says(t *testing.T, err error, wants []string, nots ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", wants)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %q", err, want)
		}
	}
	for _, not := range nots {
		if strings.Contains(err.Error(), not) {
			t.Errorf("%v\nhas %q", err, not)
		}
	}
}

// TestLocProtErrNamesTheMissingRight: the hint and the page.
func TestLocProtErrNamesTheMissingRight(t *testing.T) {
	err := (&WC{Status: WCLocProtErr}).Err()
	says(t, err, []string{"LOCAL_WRITE", "READ", "atomic", "receive", "lkey", "domain"})
	page, readErr := os.ReadFile("../docs/errors.md")
	if readErr != nil {
		t.Fatal(readErr)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| LOC_PROT_ERR") && strings.Contains(line, "LOCAL_WRITE") {
			return
		}
	}
	t.Error("docs/errors.md: no row of LOC_PROT_ERR names LOCAL_WRITE")
}
