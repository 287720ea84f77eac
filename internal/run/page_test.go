package run

import (
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/report"
)

// TestThePageIsInTheBudget checks that the memory of the page is a part of that of the clients.
func TestThePageIsInTheBudget(t *testing.T) {
	for _, c := range []struct {
		http         string
		memory, want int64
	}{{"", 1, 1}, {"0", report.Memory + 5, 5}, {"0", report.Memory, 0}} {
		o := &ServerOptions{HTTP: c.http}
		got, err := o.withoutPage(c.memory)
		if got != c.want || errors.As(err, new(job.UsageError)) != (c.want == 0) {
			t.Errorf("--http %q, %d bytes: %d, %v", c.http, c.memory, got, err)
		}
	}
}
