package chart

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestSVGIsWellFormed checks that the drawing is well-formed XML, even with special
// characters, and contains every label.
func TestSVGIsWellFormed(t *testing.T) {
	c := &Chart{
		Title: `a < b & "c"`, X: "bytes", Y: "µs",
		XName: func(x float64) string { return fmt.Sprint(x) },
		Curves: []Curve{
			{"least", []Point{{2, 1}, {8, 3}}},
			{"most", []Point{{2, 30}, {8, 400}}},
			{"single", []Point{{4, 0.5}}},
			{"fourth", []Point{{4, 100}}},
		},
	}
	for _, c.LogY = range []bool{false, true} {
		svg := c.SVG()
		var words []string
		for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
			if text, ok := token.(xml.CharData); ok {
				words = append(words, string(text))
			}
		}
		for _, want := range []string{c.Title, "bytes", "µs", "least", "most", "single", "fourth", "2", "4", "8"} {
			if !slices.Contains(words, want) {
				t.Errorf("LogY %v: no text %q in\n%s", c.LogY, want, svg)
			}
		}
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("LogY %v: a coordinate is not a number in\n%s", c.LogY, svg)
		}
	}
}

// TestAxes checks the labels of the ticks, and that every value lies inside the drawing.
func TestAxes(t *testing.T) {
	for name, c := range map[string]struct {
		points []Point
		logY   bool
		series bool
		x, y   string // the ticks' names
		at     Point  // the first point, in pixels
	}{
		"linear":           {points: []Point{{1, 0}, {4, 100}}, x: "1 2 4", y: "0 20 40 60 80 100", at: Point{left, bottom}},
		"linear, small":    {points: []Point{{1, 0}, {2, 0.07}}, x: "1 2", y: "0.00 0.01 0.02 0.03 0.04 0.05 0.06 0.07", at: Point{left, bottom}},
		"linear, large":    {points: []Point{{1, 0}, {2, 2e6}}, x: "1 2", y: "0 500000 1000000 1500000 2000000", at: Point{left, bottom}},
		"all zero":         {points: []Point{{1, 0}, {2, 0}}, x: "1 2", y: "0.0 0.2 0.4 0.6 0.8 1.0", at: Point{left, bottom}},
		"a single point":   {points: []Point{{64, 0}}, x: "32 64 128", y: "0.0 0.2 0.4 0.6 0.8 1.0", at: Point{(left + right) / 2, bottom}},
		"no power of two":  {points: []Point{{5, 0}, {7, 1}}, x: "", y: "0.0 0.2 0.4 0.6 0.8 1.0", at: Point{left, bottom}},
		"logarithmic":      {points: []Point{{1, 1.2}, {4, 100}}, logY: true, x: "1 2 4", y: "1 2 5 10 20 50 100", at: Point{left, bottom - math.Log(1.2)/math.Log(120)*(bottom-top)}},
		"logarithmic, far": {points: []Point{{1, 0.1}, {4, 1e4}}, logY: true, x: "1 2 4", y: "0.1 1 10 100 1000 10000", at: Point{left, bottom - math.Log(1.2)/math.Log(1.44e5)*(bottom-top)}},
		"over time":        {points: []Point{{0, 100}, {10, 0}}, series: true, x: "0 1 2 3 4 5 6 7 8 9 10", y: "0 20 40 60 80 100", at: Point{left, bottom - (bottom-top)/1.1}},
		"many sizes":       {points: []Point{{2, 0}, {1 << 15, 1}}, x: "2  8  32  128  512  2048  8192  32768", y: "0.0 0.2 0.4 0.6 0.8 1.0", at: Point{left, bottom}},
	} {
		t.Run(name, func(t *testing.T) {
			chart := &Chart{LogY: c.logY, Series: c.series, Curves: []Curve{{Points: c.points}}, XName: func(x float64) string { return fmt.Sprint(x) }}
			xs, ys := chart.axes()
			if got := names(xs.ticks); got != c.x {
				t.Errorf("the ticks of X are %q, want %q", got, c.x)
			}
			if got := names(ys.ticks); got != c.y {
				t.Errorf("the ticks of Y are %q, want %q", got, c.y)
			}
			const close = 1e-6
			if x, y := xs.at(c.points[0].X), ys.at(c.points[0].Y); math.Abs(x-c.at.X) > close || math.Abs(y-c.at.Y) > close {
				t.Errorf("%v is at %g, %g; want %v", c.points[0], x, y, c.at)
			}
			for _, p := range c.points {
				if x, y := xs.at(p.X), ys.at(p.Y); x < left-close || x > right+close || y < top-close || y > bottom+close {
					t.Errorf("%v is at %g, %g: outside the drawing", p, x, y)
				}
			}
		})
	}
}

func names(ticks []tick) string {
	var names []string
	for _, t := range ticks {
		names = append(names, t.name)
	}
	return strings.Join(names, " ")
}
