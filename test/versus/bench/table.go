// The results and their tables.

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// result is the result of a comparison: the readings of both programs per round.
type result struct {
	comparison
	Part   string
	Host   string // its processor and kernel
	Rounds [][2]reading

	Repeated []string // the errors of repeated rounds
}

// What a row compares of both programs.
var (
	figure    = func(r reading) float64 { return r.Figure }
	processor = func(r reading) float64 { return r.Processor + r.CRCs }
	p99       = func(r reading) float64 { return r.P99 }
)

// each returns the values of program i: 0 or 1.
func (r result) each(i int, of func(reading) float64) (all []float64) {
	for _, round := range r.Rounds {
		all = append(all, of(round[i]))
	}
	return all
}

// ratios returns the ratios of the rounds, sorted.
func (r result) ratios(of func(reading) float64) (all []float64) {
	for _, round := range r.Rounds {
		all = append(all, of(round[0])/of(round[1]))
	}
	slices.Sort(all)
	return all
}

// ratio returns the median of the ratios of the rounds, and their quartiles as a text. It is empty if the programs do not
// report the value.
func (r result) ratio(of func(reading) float64) (float64, string) {
	all := r.ratios(of)
	middle := median(all)
	if !(middle > 0) || math.IsInf(middle, 0) {
		return 0, ""
	}
	out := len(all) / 4
	return middle, fmt.Sprintf("%.2f (%.2f to %.2f)", middle, all[out], all[len(all)-1-out])
}

// aim returns the wanted ratio, and whether it is met.
func (r result) aim() string { return aim(r.Aim, r.Measure.latency(), r, figure) }

func (r result) processorAim() string { return aim(r.ProcessorAim, true, r, processor) }

func aim(wanted float64, most bool, r result, of func(reading) float64) string {
	if wanted == 0 {
		return ""
	}
	got, _ := r.ratio(of)
	sign, met := "≥", got >= wanted
	if most {
		sign, met = "≤", got <= wanted
	}
	verdict := "met"
	if !met {
		verdict = "missed"
	}
	return fmt.Sprintf("%s %.2f: %s", sign, wanted, verdict)
}

// better returns "more" or "less": the better direction of the ratio.
func (r result) better() string {
	if r.Measure.latency() {
		return "less"
	}
	return "more"
}

// medians returns the medians of both programs, with the units.
func (r result) medians() string {
	of := func(form string, of func(reading) float64, unit float64) string {
		if median(r.each(1, of)) == 0 {
			return ""
		}
		return fmt.Sprintf(form, median(r.each(0, of))/unit, median(r.each(1, of))/unit)
	}
	if r.Measure.latency() {
		return of("%.2f, %.2f µs", figure, 1) + of("; 99 %% %.2f, %.2f µs", p99, 1) + of("; processor %.1f, %.1f µs per round trip", processor, 1)
	}
	text := of("%.1f, %.1f MB/s", figure, 1e6) + of("; processor %.0f, %.0f µs per MiB", processor, 1)
	if crcs := median(r.each(1, func(r reading) float64 { return r.CRCs })); crcs > 0 {
		text += fmt.Sprintf(", %.0f of it for CRCs", crcs)
	}
	return text
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
	_, text := r.ratio(figure)
	if _, more := r.ratio(processor); more != "" {
		text += ", processor time " + more
	}
	return fmt.Sprintf("%s: %s %s", r.Name, text, r.aim())
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
		title := fmt.Sprintf("%s: medians of %d rounds, and quartiles. %s", part.about, len(of[0].Rounds), of[0].Host)
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
	fmt.Fprintf(&b, "%s.\n\n| | better is | ratio | aim | processor time | aim | 99 %% |\n|---|---|---|---|---|---|---|\n", title)
	for _, r := range results {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(r.cells(), " | "))
	}
	b.WriteByte('\n')
	if note := repeated(results); note != "" {
		b.WriteString(note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells returns the columns of a row that both tables have.
func (r result) cells() []string {
	_, ratio := r.ratio(figure)
	_, busy := r.ratio(processor)
	_, tail := r.ratio(p99)
	return []string{r.Name, r.better(), ratio, r.aim(), busy, r.processorAim(), tail}
}

func printText(w io.Writer, title string, results []result) error {
	fmt.Fprintf(w, "%s\n\n", title)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tbetter is\tratio\taim\tprocessor time\taim\t99 %\tmedians")
	for _, r := range results {
		fmt.Fprintln(t, strings.Join(append(r.cells(), r.medians()), "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, repeated(results))
	return err
}
