//go:build !rdma

// Test of the TCP exchange, which is the same on every device.

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOOBDocumentNamesMessages checks that the table of docs/oob-protocol.md has the TCP
// messages of each job in the job's row.
func TestOOBDocumentNamesMessages(t *testing.T) {
	noLeak(t)
	rows := documentedJobs(t)
	folder := t.TempDir()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("to be sent"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--dir", folder)
	runs := map[string]int{}
	for _, flags := range []string{
		"send", "write-read", "write-imm", "exchange-write", "exchange-read --leave-early", "atomic",
		"bulk --size 1M", "bulk --size 1M --op read", "file --file " + file,
	} {
		args := append([]string{"--job"}, strings.Split(flags, " ")...)
		job := args[1]
		runs[job]++
		t.Run(flags, func(t *testing.T) {
			c := s.client(t, args...)
			c.succeeds()
			row := rows[job]
			for _, r := range c.all("oob.message") {
				name := r.str("name")
				switch name {
				case "", "receives posted", "in RTS", "done":
					continue
				}
				if !strings.Contains(row, "`"+name+"`") {
					t.Errorf("the %s %q is not in the row %q", r.str("message"), name, row)
				}
			}
			for _, r := range c.all("region.known") {
				if !strings.Contains(row, "`"+r.str("name")+"`") {
					t.Errorf("the region %q is not in the row %q", r.str("name"), row)
				}
			}
		})
	}
	s.stops()
	for _, r := range s.all("job.chosen") {
		job := r.str("msg")[strings.LastIndex(r.str("msg"), " ")+1:]
		params, _ := r["params"].(map[string]any)
		if len(params) == 0 {
			t.Errorf("%s: no parameters", job)
		}
		for name := range params {
			if !strings.Contains(rows[job], "`"+name+"`") {
				t.Errorf("%s: the parameter %q is not in the row %q", job, name, rows[job])
			}
		}
	}
	for job := range rows {
		if runs[job] == 0 {
			t.Errorf("the table has a row of the job %q, which was not run", job)
		}
	}
}

// documentedJobs returns the rows of the document's table, by job.
func documentedJobs(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "oob-protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### The jobs\n")
	section, _, _ = strings.Cut(section, "\n### ")
	rows := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 6 {
			continue
		}
		for job := range strings.SplitSeq(cells[1], ",") {
			rows[strings.Trim(job, " `")] = line
		}
	}
	if len(rows) != 8 {
		t.Fatalf("docs/oob-protocol.md: rows of %d jobs, want 8", len(rows))
	}
	return rows
}
