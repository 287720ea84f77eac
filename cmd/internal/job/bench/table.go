// The table of results, as one end logs it. It is the table of perftest.

package bench

import (
	"log/slog"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/verbs"
)

// Table has one end's plan, and shows the results.
type Table struct {
	kit.Tracer
	Plan  measure.Plan
	Unit  measure.Unit // of bandwidth
	chart *benchChart  // nil draws none
}

// CheckSize refuses messages that are longer than the device can send.
func (t *Table) CheckSize(dev *verbs.Device, port uint8) error {
	most, err := kit.LongestMessage(dev, max(port, 1))
	if err == nil && kit.Size(t.Plan.Size) > most {
		err = errors.Errorf("a message of %v bytes is longer than %s can send, %v; try: --size %v", kit.Size(t.Plan.Size), dev.Name(), most, most)
	}
	return err
}

// Begin logs the plan and the table's header.
func (t *Table) Begin() {
	p := &t.Plan
	event.BenchBegun.Log(t.Logger, "measure; the requests are not shown", slog.String("op", p.Op.String()), slog.Bool("latency", p.Latency),
		slog.Int("size", p.Size), slog.Bool("all", p.All), slog.Bool("bidirectional", p.Both), slog.Int("iters", p.Iterations),
		slog.Duration("duration", p.Duration), slog.Duration("margin", p.Margin),
		slog.Int("qps", p.QPs), slog.Int("tx_depth", p.TxDepth), slog.Int("rx_depth", p.RxDepth), slog.Int("cq_mod", p.CQMod),
		slog.Int("post_list", p.PostList), slog.Int("inline", p.Inline), slog.Bool("events", p.Events))
	event.BenchHeader.Log(t.Logger, p.Header(t.Unit))
}

// Show logs the table's row of a result, and all its figures. by names the end that measured.
func (t *Table) Show(by string, r measure.Result) {
	attrs := []slog.Attr{slog.String("by", by), slog.Int("size", r.Size), slog.Int64("iters", r.Iterations), slog.Duration("took", r.Took)}
	if b := r.Bandwidth; b != nil {
		attrs = append(attrs, slog.String("unit", t.Unit.Name), slog.Float64("peak", kit.Rounded(t.Unit.Of(b.Peak))), slog.Float64("average", kit.Rounded(t.Unit.Of(b.Average))),
			slog.Float64("messages_per_s", kit.Rounded(b.Messages)), slog.Float64("peak_bytes_per_s", kit.Rounded(b.Peak)), slog.Float64("bytes_per_s", kit.Rounded(b.Average)))
	}
	if l := r.Latency; l != nil {
		var percentiles []any
		for _, q := range measure.Percentiles() {
			percentiles = append(percentiles, slog.Float64(q, kit.Rounded(l.Percentiles[q])))
		}
		attrs = append(attrs, slog.Int64("samples", l.Samples), slog.Float64("t_min_us", kit.Rounded(l.Min)), slog.Float64("t_max_us", kit.Rounded(l.Max)),
			slog.Float64("t_longest_us", kit.Rounded(l.Longest)), slog.Float64("t_typical_us", kit.Rounded(l.Typical)), slog.Float64("t_avg_us", kit.Rounded(l.Average)),
			slog.Float64("t_stdev_us", kit.Rounded(l.Stdev)), slog.Float64("per_s", kit.Rounded(l.Rate)), slog.Group("percentiles_us", percentiles...))
	}
	event.BenchResult.Log(t.Logger, t.Plan.Row(r, t.Unit), attrs...)
	t.chart.add(r)
}

// Reports reports whether each end sends its result to the other, so that both know the sum.
func (t *Table) Reports() bool {
	return t.Plan.Both && (t.Plan.Op != measure.Send || t.Plan.Duration == 0)
}

// WriteChart draws the results, if the user asked for a chart.
func (t *Table) WriteChart() error {
	if t.chart == nil {
		return nil
	}
	if len(t.chart.results) == 0 {
		event.BenchChart.Log(t.Logger, "no chart: this end only provides memory, and the other end does not send its figures", slog.String("file", ""))
		return nil
	}
	if err := t.chart.write(t.Unit); err != nil {
		return errors.WithMessage(err, "--chart")
	}
	event.BenchChart.Log(t.Logger, "the chart is in "+t.chart.file, slog.String("file", t.chart.file))
	return nil
}
