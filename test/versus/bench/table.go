// The results and their tables.

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is the result of a comparison: the figures of both programs per round.
type result struct {
	comparison
	Part   string
	Rounds [][2]float64

	Repeated []string // the errors of repeated rounds
}

// figures returns the figures of program i: 0 or 1.
func (r result) figures(i int) (all []float64) {
	for _, round := range r.Rounds {
		all = append(all, round[i])
	}
	return all
}

// ratio returns the ratio of the medians.
func (r result) ratio() float64 { return median(r.figures(0)) / median(r.figures(1)) }

// ratios returns the ratios of the rounds, sorted.
func (r result) ratios() (all []float64) {
	for _, round := range r.Rounds {
		all = append(all, round[0]/round[1])
	}
	slices.Sort(all)
	return all
}

// spread returns the range of the ratios of the rounds.
func (r result) spread() string {
	all := r.ratios()
	return fmt.Sprintf("%.2f to %.2f", all[0], all[len(all)-1])
}

// middleHalf returns the range of the middle half of the ratios.
func (r result) middleHalf() string {
	all := r.ratios()
	out := len(all) / 4
	return fmt.Sprintf("%.2f to %.2f", all[out], all[len(all)-1-out])
}

// aim returns the wanted ratio, and whether it is met.
func (r result) aim() string {
	if r.Aim == 0 {
		return ""
	}
	sign, met := "≥", r.ratio() >= r.Aim
	if r.Measure.latency() {
		sign, met = "≤", r.ratio() <= r.Aim
	}
	verdict := "met"
	if !met {
		verdict = "missed"
	}
	return fmt.Sprintf("%s %.2f: %s", sign, r.Aim, verdict)
}

// better returns "more" or "less": the better direction of the ratio.
func (r result) better() string {
	if r.Measure.latency() {
		return "less"
	}
	return "more"
}

// medians returns the medians of both programs, with the unit.
func (r result) medians() string {
	if r.Measure.latency() {
		return fmt.Sprintf("%.2f, %.2f µs", median(r.figures(0)), median(r.figures(1)))
	}
	return fmt.Sprintf("%.1f, %.1f MB/s", median(r.figures(0))/1e6, median(r.figures(1))/1e6)
}

// repeated returns a sentence with the number of repeated rounds, or "".
func repeated(results []result) string {
	n := 0
	var names []string
	for _, r := range results {
		if len(r.Repeated) > 0 {
			n += len(r.Repeated)
			names = append(names, r.Name)
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Rounds that failed and were repeated: %d (%s).\n", n, strings.Join(names, "; "))
}

func (r result) line() string {
	return fmt.Sprintf("%s: %.2f (%s) %s", r.Name, r.ratio(), r.spread(), r.aim())
}

// median returns the middle value, or the mean of the two middle values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// printTables prints a table for each part.
func printTables(w io.Writer, results []result, markdown bool) error {
	for _, part := range parts {
		var of []result
		for _, r := range results {
			if r.Part == part.name {
				of = append(of, r)
			}
		}
		if len(of) == 0 {
			continue
		}
		title := fmt.Sprintf("%s: medians of %d rounds", part.about, len(of[0].Rounds))
		var err error
		if markdown {
			err = printMarkdown(w, title, of)
		} else {
			err = printText(w, title, of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// printMarkdown prints only ratios, because other figures depend on the machine.
func printMarkdown(w io.Writer, title string, results []result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n| | better is | ratio | middle half of the rounds | all rounds | aim |\n|---|---|---|---|---|---|\n", title)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %s |\n", r.Name, r.better(), r.ratio(), r.middleHalf(), r.spread(), r.aim())
	}
	b.WriteByte('\n')
	if note := repeated(results); note != "" {
		b.WriteString(note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printText(w io.Writer, title string, results []result) error {
	fmt.Fprintf(w, "%s\n\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tbetter is\tratio\tmiddle half\tall rounds\taim\tmedians")
	for _, r := range results {
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\t%s\t%s\t%s\n", r.Name, r.better(), r.ratio(), r.middleHalf(), r.spread(), r.aim(), r.medians())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, repeated(results))
	return err
}
