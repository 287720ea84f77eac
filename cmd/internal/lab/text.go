// The closest of several names.

package lab

import "strings"

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
