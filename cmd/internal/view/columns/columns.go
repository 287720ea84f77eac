// Package columns measures and wraps text as a terminal shows it.
package columns

import (
	"cmp"
	"strings"
	"unicode"
)

// wide are the ranges of runes that terminals show in two columns: scripts of East
// Asia and pictures.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x23e9, Hi: 0x23f3, Stride: 1},
		{Lo: 0x2600, Hi: 0x27bf, Stride: 1}, {Lo: 0x2b1b, Hi: 0x2b55, Stride: 1}, {Lo: 0x2e80, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, {Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1}, {Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x16fe0, Hi: 0x1b2ff, Stride: 1}, {Lo: 0x1f000, Hi: 0x1faff, Stride: 1}, {Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// Of returns how many columns of a terminal a text takes.
func Of(s string) (n int) {
	for _, r := range s {
		n += OfRune(r)
	}
	return n
}

// OfRune returns how many columns a rune takes: 0, 1 or 2.
func OfRune(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Wrap breaks a text into lines of at most width columns: at spaces, and a word that
// is longer than a line wherever the line is full.
func Wrap(text string, width int) []string {
	var lines []string
	var line string
	used := 0
	for word := range strings.SplitSeq(text, " ") {
		n := Of(word)
		if line != "" && used+1+n <= width {
			line, used = line+" "+word, used+1+n
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for n > width {
			head := Fit(word, width)
			lines = append(lines, head)
			word = word[len(head):]
			n = Of(word)
		}
		line, used = word, n
	}
	return append(lines, line)
}

// Paragraph returns a text behind head, in lines of at most width columns. Its further lines are
// indented as far as head reaches. No line ends with a space.
func Paragraph(head, text string, width int) string {
	var p strings.Builder
	indent := strings.Repeat(" ", Of(head))
	for _, line := range Wrap(text, width-len(indent)) {
		p.WriteString(strings.TrimRight(head+line, " ") + "\n")
		head = indent
	}
	return p.String()
}

// Fit returns the longest beginning of s that takes at most width columns, and at least
// one rune.
func Fit(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += OfRune(r); used > width && i > 0 {
			return s[:i]
		}
	}
	return s
}

// WrapFields puts as many fields on a line as width columns hold, and breaks a field
// that is longer than a line.
func WrapFields(fields []string, width int) (lines []string) {
	for _, f := range fields {
		if last := len(lines) - 1; last >= 0 && Of(lines[last])+1+Of(f) <= width {
			lines[last] += " " + f
		} else {
			lines = append(lines, Wrap(f, width)...)
		}
	}
	return lines
}

// Page collects lines of text.
type Page struct {
	strings.Builder
	Width int // of a line, in columns; 0 is 80
}

func (p *Page) width() int { return cmp.Or(p.Width, 80) }

// Line adds one line.
func (p *Page) Line(text string) { p.WriteString(strings.TrimRight(text, " ") + "\n") }

// Para adds a text behind head, wrapped. Its further lines are indented as far as head
// reaches.
func (p *Page) Para(head, text string) { p.WriteString(Paragraph(head, text, p.width())) }

// Row adds one row of a table. Each cell is wrapped in its column; the last column has the
// rest of the width.
func (p *Page) Row(widths []int, cells ...string) {
	var wrapped [][]string
	height, left := 0, p.width()
	for i, cell := range cells {
		width := left
		if i < len(widths) {
			width = widths[i]
		}
		left -= width + 2
		wrapped = append(wrapped, Wrap(cell, width))
		height = max(height, len(wrapped[i]))
	}
	for y := range height {
		var b strings.Builder
		for i, lines := range wrapped {
			text := ""
			if y < len(lines) {
				text = lines[y]
			}
			b.WriteString(text)
			if i < len(widths) {
				b.WriteString(strings.Repeat(" ", max(widths[i]-Of(text), 0)+2))
			}
		}
		p.Line(b.String())
	}
}

// Table adds rows, each column as wide as its widest cell.
func (p *Page) Table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], Of(cell))
		}
	}
	for _, row := range rows {
		p.Row(widths[:len(widths)-1], row...)
	}
}
