// The chart of a measuring: over the sizes, bandwidth or latency. It is an SVG, which
// any browser shows, alone or in a page.

package lab

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/rawverbs/rawverbs/internal/bench"
)

// benchChart collects what it will draw; nil draws nothing.
type benchChart struct {
	file    string
	plan    bench.Plan
	results []bench.Result
}

// newBenchChart tries that the file can be written.
func newBenchChart(name string, plan bench.Plan) (*benchChart, error) {
	if name == "" {
		return nil, nil
	}
	switch filepath.Ext(name) {
	case ".svg", ".html":
	default:
		return nil, Usagef("--chart %s: a chart is an SVG, or that in a page; try: a name that ends in .svg or .html", name)
	}
	file, err := recordable(name)
	if err != nil {
		return nil, fmt.Errorf("--chart: %w", err)
	}
	return &benchChart{file: file, plan: plan}, nil
}

func (c *benchChart) add(r bench.Result) {
	if c != nil {
		c.results = append(c.results, r)
	}
}

// curve is one of the chart's lines.
type curve struct {
	name string
	of   func(bench.Result) float64
}

func (c *benchChart) curves(u bench.Unit) []curve {
	if c.plan.Latency {
		return []curve{
			{"minimum", func(r bench.Result) float64 { return r.Latency.Min }},
			{"median", func(r bench.Result) float64 { return r.Latency.Typical }},
			{"99 %", func(r bench.Result) float64 { return r.Latency.Percentiles["99"] }},
		}
	}
	list := []curve{{"average", func(r bench.Result) float64 { return u.Of(r.Bandwidth.Average) }}}
	if c.plan.Peak() {
		list = append(list, curve{"peak", func(r bench.Result) float64 { return u.Of(r.Bandwidth.Peak) }})
	}
	return list
}

// write draws the chart and puts it in its place when it is whole.
func (c *benchChart) write(u bench.Unit) error {
	p, err := c.draw(u)
	if err != nil {
		return err
	}
	canvas := vgsvg.New(24*vg.Centimeter, 14*vg.Centimeter)
	p.Draw(draw.New(canvas))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	return replaceFile(c.file, c.page(svg.Bytes()))
}

func (c *benchChart) draw(u bench.Unit) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text = "bytes of a message"
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, sizeTicks{}
	if c.plan.Latency {
		p.Title.Text = fmt.Sprintf("latency of %v", c.plan.Op)
		p.Y.Label.Text = "µs"
	} else {
		p.Title.Text = fmt.Sprintf("bandwidth of %v", c.plan.Op)
		p.Y.Label.Text = strings.TrimSuffix(u.Name, "ec")
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, curve := range c.curves(u) {
		points := make(plotter.XYs, len(c.results))
		for k, r := range c.results {
			points[k] = plotter.XY{X: float64(r.Size), Y: curve.of(r)}
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		dots.Shape = plotutil.Shape(i)
		p.Add(line, dots)
		p.Legend.Add(curve.name, line, dots)
	}
	if c.plan.Latency && p.Y.Min > 0 && p.Y.Max > 10*p.Y.Min { // that of small messages is to be seen too
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
		p.Y.Min, p.Y.Max = p.Y.Min/1.2, p.Y.Max*1.2
	} else {
		p.Y.Min, p.Y.Max = 0, p.Y.Max*1.1
	}
	if p.X.Min == p.X.Max { // one size: room on either side of it
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	return p, nil
}

// page is the file's content.
func (c *benchChart) page(svg []byte) io.WriterTo {
	if filepath.Ext(c.file) != ".html" {
		return bytes.NewBuffer(svg)
	}
	_, drawing, _ := bytes.Cut(svg, []byte("<svg")) // without the head of an XML file
	return bytes.NewBufferString("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>rdma_client</title></head><body>\n<svg" + string(drawing) + "</body></html>\n")
}

// sizeTicks marks every power of two, and names every second one if there are many.
type sizeTicks struct{}

func (sizeTicks) Ticks(least, most float64) (ticks []plot.Tick) {
	if !(least > 0) {
		return nil // there is no message of no bytes
	}
	low, high := int(math.Floor(math.Log2(least))), int(math.Ceil(math.Log2(most)))
	every := 1
	if high-low > 12 {
		every = 2
	}
	for n := low; n <= high; n++ {
		at := math.Exp2(float64(n))
		if at < least || at > most {
			continue
		}
		label := ""
		if n >= 0 && (n-low)%every == 0 {
			label = Size(int64(at)).String()
		}
		ticks = append(ticks, plot.Tick{Value: at, Label: label})
	}
	return ticks
}
