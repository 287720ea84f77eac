package columns

import (
	"slices"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, test := range []struct {
		text string
		want []string
	}{
		{"", []string{""}},
		{"one two", []string{"one", "two"}},
		{"a b c d", []string{"a b c", "d"}},
		{"sevenmore", []string{"seven", "more"}},
		{"世界 x", []string{"世界", "x"}},
		{"e\u0301e\u0301e\u0301e\u0301e\u0301", []string{"e\u0301e\u0301e\u0301e\u0301e\u0301"}},
	} {
		got := Wrap(test.text, 5)
		if !slices.Equal(got, test.want) {
			t.Errorf("%q is wrapped as %q, want %q", test.text, got, test.want)
		}
	}
}
