// Text of 80 columns, and the closest of several names.

package lab

import (
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

const pageWidth = 80

// page collects the lines of a report.
type page struct{ strings.Builder }

// line adds one line.
func (p *page) line(text string) { p.WriteString(strings.TrimRight(text, " ") + "\n") }

// para adds a text behind head, wrapped. Its further lines are indented as far as head
// reaches.
func (p *page) para(head, text string) { p.WriteString(columns.Paragraph(head, text, pageWidth)) }

// row adds one row of a table. Each cell is wrapped in its column; the last column has the
// rest of the width.
func (p *page) row(widths []int, cells ...string) {
	var wrapped [][]string
	height, left := 0, pageWidth
	for i, cell := range cells {
		width := left
		if i < len(widths) {
			width = widths[i]
		}
		left -= width + 2
		wrapped = append(wrapped, columns.Wrap(cell, width))
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
				b.WriteString(strings.Repeat(" ", max(widths[i]-columns.Of(text), 0)+2))
			}
		}
		p.line(b.String())
	}
}

// table adds rows, each column as wide as its widest cell.
func (p *page) table(rows [][]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], columns.Of(cell))
		}
	}
	for _, row := range rows {
		p.row(widths[:len(widths)-1], row...)
	}
}

// Closest returns the name that word most likely means, or "" if none is similar.
func Closest(word string, names []string) string {
	best, least := "", 1+len(word)/3 // at most a third of the letters may differ
	for _, name := range names {
		if d := distance(strings.ToUpper(word), strings.ToUpper(name)); d < least || d == least && best == "" {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters must be changed, added or removed to make a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
