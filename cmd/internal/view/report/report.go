package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/web"
)

// Report is a run to be drawn.
type Report struct {
	record    *trace.Record
	endpoints endpoints
	captures  []*capture
	settled   bool // the captures have their ends and times
	joined    []joined
	shapes    []shapeData
	shapeOf   map[string]int // the index of a kind of packet in shapes
}

// New makes the report of a record. The record is not changed.
func New(record *trace.Record) *Report {
	r := &Report{record: record, endpoints: endpointsOf(record), shapeOf: map[string]int{}}
	r.number()
	return r
}

// data is what the page draws, as JSON. web/src/report/data.ts has the same types.
type data struct {
	Live     bool              `json:"live,omitempty"`
	Record   json.RawMessage   `json:"record,omitempty"` // the header of the record
	Events   []json.RawMessage `json:"events"`           // its other lines
	Captures []captureData     `json:"captures"`
	Packets  []packetData      `json:"packets"`
	Shapes   []shapeData       `json:"shapes"` // of the packets' headers
	Hints    map[string]hint   `json:"hints"`  // by the C names of statuses and events
}

// hint explains an error.
type hint struct {
	Text   string `json:"text"` // what C prints
	Cause  string `json:"cause"`
	Remedy string `json:"remedy"`
}

// WriteTo writes the page.
func (r *Report) WriteTo(w io.Writer) (int64, error) {
	var lines bytes.Buffer
	if _, err := r.record.WriteTo(&lines); err != nil {
		return 0, err
	}
	var d data
	for line := range bytes.Lines(lines.Bytes()) {
		d.Events = append(d.Events, json.RawMessage(line))
	}
	d.Record, d.Events = d.Events[0], d.Events[1:]
	d.Hints = hints(func(name string) bool { return bytes.Contains(lines.Bytes(), []byte(name)) })
	r.settle()
	d.Packets, d.Shapes = packetsData(r.joined), r.shapes
	for _, c := range r.captures {
		d.Captures = append(d.Captures, c.data())
	}
	return writePage(w, &d)
}

func hints(wanted func(name string) bool) map[string]hint {
	all := map[string]hint{}
	for _, e := range diagnosis.Entries() {
		if (e.Kind == diagnosis.Status || e.Kind == diagnosis.Event) && wanted(e.Name) {
			all[e.Name] = hint{Text: e.Text, Cause: diagnosis.Plain(e.Cause), Remedy: diagnosis.Plain(e.Remedy)}
		}
	}
	return all
}

func writePage(w io.Writer, d *data) (int64, error) {
	d.Events, d.Captures, d.Packets, d.Shapes = orEmpty(d.Events), orEmpty(d.Captures), orEmpty(d.Packets), orEmpty(d.Shapes)
	text, err := json.Marshal(d) // writes < as \u003c, so nothing in it ends the element
	if err != nil {
		return 0, errors.WithMessage(err, "the report")
	}
	parts, err := web.Report()
	if err != nil {
		return 0, err
	}
	sum := sha256.Sum256([]byte(parts.Script))
	policy := "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	if d.Live {
		policy += "; connect-src 'self'"
	}
	n, err := io.WriteString(w, web.Fill(parts.Page, map[string]string{
		"policy": policy, "style": parts.Style, "script": parts.Script, "data": string(text), "licences": parts.Licences,
	}))
	return int64(n), err
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// ends has both ends in the order in which the page names them.
var ends = []string{trace.EndClient, trace.EndServer}

// Packets returns how many packets the page draws.
func (r *Report) Packets() int {
	r.settle()
	return len(r.joined)
}
