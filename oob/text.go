package oob

// The rule for every text that crosses the connection. Texts of one end are
// printed on the other end's terminal, so nothing may be in them that moves a
// cursor, starts a new line or turns the writing direction.

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pkg/errors"
)

// unprintable reports control characters (Cc), format characters such as the
// bidirectional overrides (Cf), and the line and paragraph separators.
func unprintable(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// checkText refuses a text that is too short, too long, or unfit to print.
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
		return errors.Errorf("%s %+q holds the unprintable character %U", field, s, r)
	}
	return nil
}

// tidyText makes any text pass checkText: what is unprintable becomes a space,
// what is too long ends in "...", cut between characters.
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
