// Results of runs, as JSON files and as a table.

package verbstest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pkg/errors"
)

// Results are the results of all cases on one device.
type Results struct {
	Device string
	Cases  []Result
}

// Result is the result of one case: the word of its verdict, and the reason of its quirk.
type Result struct {
	ID, Word, Reason string
	Took             time.Duration
}

// Count returns the number of cases per verdict, as text.
func (r *Results) Count() string {
	count := make(map[string]int)
	for _, c := range r.Cases {
		count[c.Word]++
	}
	var counts []string
	for _, word := range []string{passed, quirky, unsupported, failed, stale} {
		if n := count[word]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return fmt.Sprintf("%d cases: %s", len(r.Cases), strings.Join(counts, ", "))
}

// save writes the results to the directory in the environment variable VM_OUT, which the
// virtual machine sets, or RDMA_TEST_RESULTS. Without either it does nothing.
func (r *Results) save() error {
	dir := cmp.Or(os.Getenv("VM_OUT"), os.Getenv("RDMA_TEST_RESULTS"))
	if dir == "" {
		return nil
	}
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.Device+".results.json"), data, 0o644)
}

// ReadResults reads the results that runs have saved in a directory.
func ReadResults(dir string) ([]Results, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.results.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.Errorf("%s has no results of a run; try: make conformance", dir)
	}
	all := make([]Results, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &all[i])
		}
		if err != nil {
			return nil, errors.WithMessage(err, file)
		}
	}
	return all, nil
}

// FprintTable prints one row per case and one column per device. Below the table it prints the
// reasons, which the table refers to by number, and the counts of each device. It returns the
// cases that failed on a device or did not run on it.
func FprintTable(w io.Writer, all []Results) (wrong []string) {
	var ids []string
	words := make([]map[string]Result, len(all))
	for i, r := range all {
		words[i] = make(map[string]Result)
		for _, c := range r.Cases {
			words[i][c.ID] = c
			if !slices.Contains(ids, c.ID) {
				ids = append(ids, c.ID)
			}
		}
	}
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	head := []string{"CASE"}
	for _, r := range all {
		head = append(head, r.Device)
	}
	fmt.Fprintln(table, strings.Join(head, "\t"))
	var reasons []string
	for _, id := range ids {
		row := []string{id}
		for i := range all {
			c, ran := words[i][id]
			word := c.Word
			if !ran {
				word = "not run"
			}
			if !ran || word == failed || word == stale {
				wrong = append(wrong, all[i].Device+": "+id+": "+word)
			}
			if c.Reason != "" {
				n := slices.Index(reasons, c.Reason)
				if n < 0 {
					n, reasons = len(reasons), append(reasons, c.Reason)
				}
				word += fmt.Sprintf(" (%d)", n+1)
			}
			row = append(row, word)
		}
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	if err := table.Flush(); err != nil {
		wrong = append(wrong, err.Error())
	}
	for i, reason := range reasons {
		fmt.Fprintf(w, "(%d) %s\n", i+1, reason)
	}
	for _, r := range all {
		fmt.Fprintf(w, "%s: %s\n", r.Device, r.Count())
	}
	return wrong
}
