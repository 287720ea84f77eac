// The chart of the results: bandwidth or latency by size. It is an SVG file, or an HTML page
// with an SVG. Any browser shows both.

package bench

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bench/measure"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/internal/chart"
)

// benchChart collects the results that it will draw; nil draws nothing.
type benchChart struct {
	file    string
	plan    measure.Plan
	results []measure.Result
}

// newBenchChart returns an error if the file cannot be written.
func newBenchChart(name string, plan measure.Plan) (*benchChart, error) {
	if name == "" {
		return nil, nil
	}
	switch filepath.Ext(name) {
	case ".svg", ".html":
	default:
		return nil, usage.Errorf("--chart %s: a chart is an SVG file or an HTML page; try: a name that ends in .svg or .html", name)
	}
	file, err := kit.Replaceable(name)
	if err != nil {
		return nil, errors.WithMessage(err, "--chart")
	}
	return &benchChart{file: file, plan: plan}, nil
}

func (c *benchChart) add(r measure.Result) {
	if c != nil {
		c.results = append(c.results, r)
	}
}

// curve is one of the chart's lines.
type curve struct {
	name string
	of   func(measure.Result) float64
}

func (c *benchChart) curves(u measure.Unit) []curve {
	if c.plan.Latency {
		return []curve{
			{"minimum", func(r measure.Result) float64 { return r.Latency.Min }},
			{"median", func(r measure.Result) float64 { return r.Latency.Typical }},
			{"99 %", func(r measure.Result) float64 { return r.Latency.Percentiles["99"] }},
		}
	}
	list := []curve{{"average", func(r measure.Result) float64 { return u.Of(r.Bandwidth.Average) }}}
	if c.plan.Peak() {
		list = append(list, curve{"peak", func(r measure.Result) float64 { return u.Of(r.Bandwidth.Peak) }})
	}
	return list
}

// write draws the chart and replaces the file when the chart is complete.
func (c *benchChart) write(u measure.Unit) error {
	return kit.ReplaceFile(c.file, c.page(c.chart(u).SVG()))
}

func (c *benchChart) chart(u measure.Unit) *chart.Chart {
	d := &chart.Chart{
		Title: fmt.Sprintf("bandwidth of %v", c.plan.Op),
		X:     "bytes per message",
		Y:     strings.TrimSuffix(u.Name, "ec"),
		XName: func(x float64) string { return kit.Size(x).String() },
	}
	if c.plan.Latency {
		d.Title, d.Y = fmt.Sprintf("latency of %v", c.plan.Op), "µs"
	}
	least, most := math.Inf(1), 0.0
	for _, curve := range c.curves(u) {
		points := make([]chart.Point, len(c.results))
		for i, r := range c.results {
			y := curve.of(r)
			points[i] = chart.Point{X: float64(r.Size), Y: y}
			least, most = min(least, y), max(most, y)
		}
		d.Curves = append(d.Curves, chart.Curve{Name: curve.name, Points: points})
	}
	// A logarithmic axis shows the latency of small messages beside that of large ones.
	d.LogY = c.plan.Latency && least > 0 && most > 10*least
	return d
}

// page returns the file's content.
func (c *benchChart) page(svg []byte) io.WriterTo {
	if filepath.Ext(c.file) != ".html" {
		return bytes.NewBuffer(svg)
	}
	_, drawing, _ := bytes.Cut(svg, []byte("<svg")) // without the XML declaration in front
	return bytes.NewBufferString("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rdma_client</title></head><body>\n<svg" + string(drawing) + "</body></html>\n")
}
