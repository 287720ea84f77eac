// The text that a job sends or writes, and its flags --text and --size.

package kit

import (
	"log/slog"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

// Text holds the values of --text and --size.
type Text struct {
	Text string
	Size Size // bytes of each buffer, or of the region

	flags *pflag.FlagSet
}

// AddFlags defines both flags. what names the memory that has the size.
func (t *Text) AddFlags(f *pflag.FlagSet, text, what string, size Size) {
	t.flags, t.Size = f, size
	f.StringVarP(&t.Text, "text", "s", text, "the text to send or write")
	f.Var(&t.Size, "size", "bytes of "+what+", such as 4096, 64K, 1M")
}

// Chosen reports whether --text was given.
func (t *Text) Chosen() bool { return t.flags.Changed("text") }

// Check refuses a size of 0 bytes, and a text that is longer than the size. room names the
// memory that has the size, such as "the buffers".
func (t *Text) Check(room string) error {
	if err := CheckBuffer(t.Size); err != nil {
		return err
	}
	if Size(len(t.Text)) > t.Size {
		return usage.Errorf("the text has %d bytes, %s %d; try: a shorter one, or --size %d", len(t.Text), room, t.Size, len(t.Text))
	}
	return nil
}

// CheckBuffer refuses a buffer of 0 bytes, and a buffer that is too large for a slice.
func CheckBuffer(size Size) error {
	if size < 1 {
		return usage.Errorf("a buffer of %d bytes is not possible; try: --size 1 or more", int64(size))
	}
	return size.Addressable("--size")
}

// Cut shortens s to at most n bytes without breaking a character.
func Cut[T string | []byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// maxLogged is the largest number of bytes of a text that are logged: Linux's limit for one
// argument of a command line. A peer may write much more into a region.
const maxLogged = 128 << 10

// TextAttr returns a text as an attribute of a log record.
func TextAttr(text string) slog.Attr { return slog.String("text", Cut(text, maxLogged)) }

// Beginning returns the part of a text that is logged. The rest is not copied: it may be as large as a
// client's memory, and the budget counts that once.
func Beginning(text []byte) string { return string(Cut(text, maxLogged)) }
