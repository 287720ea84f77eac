// The results, and the tables of them.

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is a comparison that was made: by round, both programs' figures.
type result struct {
	comparison
	Part   string
	Rounds [][2]float64

	Repeated []string // why rounds were repeated
}

// figures are one program's.
func (r result) figures(i int) (all []float64) {
	for _, round := range r.Rounds {
		all = append(all, round[i])
	}
	return all
}

// ratio is that of the medians.
func (r result) ratio() float64 { return median(r.figures(0)) / median(r.figures(1)) }

// ratios are the rounds' own, in order.
func (r result) ratios() (all []float64) {
	for _, round := range r.Rounds {
		all = append(all, round[0]/round[1])
	}
	slices.Sort(all)
	return all
}

// spread is the range of the rounds' own ratios.
func (r result) spread() string {
	all := r.ratios()
	return fmt.Sprintf("%.2f to %.2f", all[0], all[len(all)-1])
}

// half is the range of the middle half of them.
func (r result) half() string {
	all := r.ratios()
	out := len(all) / 4
	return fmt.Sprintf("%.2f to %.2f", all[out], all[len(all)-1-out])
}

// aim says what the ratio is to be, and whether it is.
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

// better says which way the ratio is a gain.
func (r result) better() string {
	if r.Measure.latency() {
		return "less"
	}
	return "more"
}

// medians are both programs', with the unit.
func (r result) medians() string {
	if r.Measure.latency() {
		return fmt.Sprintf("%.2f, %.2f µs", median(r.figures(0)), median(r.figures(1)))
	}
	return fmt.Sprintf("%.1f, %.1f MB/s", median(r.figures(0))/1e6, median(r.figures(1))/1e6)
}

// repeated says in a sentence how many rounds of all were run again; "" is none.
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

// median is the middle value, or the mean of the two in the middle.
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

// printMarkdown has ratios alone: other figures are the machine's.
func printMarkdown(w io.Writer, title string, results []result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n\n| | better is | ratio | middle half of the rounds | all rounds | aim |\n|---|---|---|---|---|---|\n", title)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %.2f | %s | %s | %s |\n", r.Name, r.better(), r.ratio(), r.half(), r.spread(), r.aim())
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
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%s\t%s\t%s\t%s\n", r.Name, r.better(), r.ratio(), r.half(), r.spread(), r.aim(), r.medians())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, repeated(results))
	return err
}
