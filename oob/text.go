package oob

// The rule for every text on the connection. The peer prints the text on its terminal, so
// a text must not move the cursor, start a new line or change the writing direction.

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// unprintable reports whether r is a control character (Cc), a format character such as
// a bidirectional override (Cf), or a line or paragraph separator.
func unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// checkText returns an error if s is too short, too long or unprintable.
func checkText(field, s string, atLeast, atMost int) error {
	if len(s) < atLeast {
		return errors.Errorf("%s is empty", field)
	}
	if len(s) > atMost {
		return errors.Errorf("%s has %d bytes, the limit is %d", field, len(s), atMost)
	}
	if !utf8.ValidString(s) {
		return errors.Errorf("%s %+q is not valid UTF-8", field, s)
	}
	if i := strings.IndexFunc(s, unprintable); i >= 0 {
		r, _ := utf8.DecodeRuneInString(s[i:])
		return errors.Errorf("%s %+q contains the unprintable character %U", field, s, r)
	}
	return nil
}

// tidyText changes s so that checkText accepts it. Unprintable characters become spaces.
// A text that is too long is cut between characters and ends in "...".
func tidyText(s string, atMost int) string {
	s = strings.Map(func(r rune) rune {
		if unprintable(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	s = strings.TrimSpace(s)
	if len(s) <= atMost {
		return s
	}
	cut := atMost - len("...")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
