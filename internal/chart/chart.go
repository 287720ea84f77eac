// Package chart draws curves as an SVG file, over a logarithmic X axis or over time.
package chart

import (
	"bytes"
	"fmt"
	"html"
)

// Chart describes a drawing. It has at least one curve.
type Chart struct {
	Title  string
	X, Y   string // labels of the axes
	Curves []Curve
	LogY   bool // true: a logarithmic Y axis; false: a linear axis from 0
	Series bool // true: a linear X axis from 0 and lines without markers, for many points over time

	// XName returns the label of a tick of the X axis. The ticks are powers of two. It is not
	// used with Series.
	XName func(x float64) string
}

// Curve is one line of a chart. It has at least one point.
type Curve struct {
	Name   string
	Points []Point
}

// Point is one value. X is greater than 0, or with Series not negative. Y is greater than 0 if the
// chart has LogY; otherwise Y is not negative.
type Point struct{ X, Y float64 }

// The drawing, in pixels.
const (
	width, height = 960, 560
	left, right   = 80, width - 30 // edges of the area of the curves
	top, bottom   = 50, height - 60
)

// styles has one colour and one marker shape per curve. Colour-blind readers can
// distinguish these colours.
var styles = []struct{ colour, shape string }{
	{"#0072b2", "M5 1a4 4 0 1 0 .01 0z"}, // circle
	{"#d55e00", "M1 1h8v8h-8z"},          // square
	{"#009e73", "M5 0l5 9h-10z"},         // triangle
}

// SVG returns the chart as an SVG file.
func (c *Chart) SVG() []byte {
	d := drawing{}
	d.printf(`<?xml version="1.0" encoding="UTF-8"?>`)
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="13">`, width, height)
	d.printf(`<rect width="%d" height="%d" fill="white"/>`, width, height)
	d.text((left+right)/2, 30, `text-anchor="middle" font-size="18"`, c.Title)
	d.text((left+right)/2, height-15, `text-anchor="middle"`, c.X)
	d.text(0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(20 %d) rotate(-90)"`, (top+bottom)/2), c.Y)
	xs, ys := c.axes()
	for _, t := range xs.ticks {
		x := xs.at(t.value)
		d.printf(`<path d="M%.1f %dV%d" stroke="#ccc"/>`, x, top, bottom)
		d.text(x, bottom+20, `text-anchor="middle"`, t.name)
	}
	for _, t := range ys.ticks {
		y := ys.at(t.value)
		d.printf(`<path d="M%d %.1fH%d" stroke="#ccc"/>`, left, y, right)
		d.text(left-8, y+4, `text-anchor="end"`, t.name)
	}
	d.printf(`<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#444"/>`, left, top, right-left, bottom-top)
	for i, curve := range c.Curves {
		d.curve(i, curve, xs, ys, !c.Series)
	}
	d.printf(`</svg>`)
	return d.Bytes()
}

type drawing struct{ bytes.Buffer }

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format+"\n", args...) }

func (d *drawing) text(x, y float64, attributes, text string) {
	if text != "" {
		d.printf(`<text x="%.1f" y="%.1f" %s>%s</text>`, x, y, attributes, html.EscapeString(text))
	}
}

// curve draws a curve and its entry in the legend.
func (d *drawing) curve(i int, c Curve, xs, ys axis, markers bool) {
	style := styles[i%len(styles)]
	d.printf(`<marker id="m%d" viewBox="0 0 10 10" refX="5" refY="5" markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9"><path d="%s" fill="%s"/></marker>`,
		i, style.shape, style.colour)
	marks := ""
	if markers {
		marks = fmt.Sprintf(` marker-start="url(#m%[1]d)" marker-mid="url(#m%[1]d)" marker-end="url(#m%[1]d)"`, i)
	}
	line := func(points string) {
		d.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"%s/>`, points, style.colour, marks)
	}
	var points []byte
	for _, p := range c.Points {
		points = fmt.Appendf(points, "%.1f,%.1f ", xs.at(p.X), ys.at(p.Y))
	}
	line(string(points))
	y := top + 20 + 20*i
	line(fmt.Sprintf("%d,%d %d,%d", left+15, y, left+45, y))
	d.text(left+55, float64(y+4), "", c.Name)
}
