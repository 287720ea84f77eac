// Reading captures.

package report

import (
	"encoding/hex"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/pcap"
	"github.com/rawverbs/rawverbs/softroce/dissect"
)

// maxPackets is how many packets of each capture are drawn. The page stays fast with that many, and a
// run of which the record has every request is shorter.
const maxPackets = 20_000

// payloadShown is how many bytes of a payload the page shows.
const payloadShown = 32

// capture is the packets that were seen at one place.
type capture struct {
	name    string
	end     string        // where it was made; "" until place
	ahead   time.Duration // of the record's clock: subtracted from its times
	why     string        // how end and ahead were found
	packets []*packet
	others  int // packets that are not of the run
	omitted int // packets of the run beyond maxPackets
	before  int // how many of packets are from before the omitted ones
	cut     string
}

// packet is a packet of the run at one place; see also joined.
type packet struct {
	dissect.Packet
	at       time.Time // by the capture's clock; after place by the record's
	to       *endpoint
	from     string  // the end that sent it
	again    bool    // it was sent before
	probe    bool    // a tail-loss probe
	other    *packet // the same at the other end
	head     string  // hex
	icrc     icrc
	shape    int // the index in Report.shapes
	meanings map[string]string
}

// captureData is a capture as the page has it.
type captureData struct {
	Name    string `json:"name"`
	End     string `json:"end"`
	Ahead   int64  `json:"ahead_ns"`
	Why     string `json:"why"`
	Packets int    `json:"packets"`
	Others  int    `json:"others"`
	Omitted int    `json:"omitted,omitempty"`
	After   string `json:"omitted_after,omitempty"` // the time of the last packet before the omitted ones
	Until   string `json:"omitted_until,omitempty"` // the time of the first packet after them, if there is one
	Cut     string `json:"cut,omitempty"`           // why the rest of the file could not be read
}

func (c *capture) data() captureData {
	d := captureData{Name: c.name, End: c.end, Ahead: c.ahead.Nanoseconds(), Why: c.why, Packets: len(c.packets), Others: c.others, Omitted: c.omitted, Cut: c.cut}
	if c.omitted > 0 && c.before > 0 {
		d.After = timeText(c.packets[c.before-1].at)
		if c.before < len(c.packets) {
			d.Until = timeText(c.packets[c.before].at)
		}
	}
	return d
}

// AddCapture adds a capture: a pcap or pcapng file of this name. The end at which it was made may be
// "", if that is not known. A file that ends within a packet is drawn up to there, and the page says
// so. The error is that of a file that is no capture, or has no packet of the run.
func (r *Report) AddCapture(name, end string, file io.Reader) error {
	packets, err := pcap.NewReader(file)
	if err != nil {
		return err
	}
	c := &capture{name: filepath.Base(name), end: end}
	if end != "" {
		c.why = "as you said"
	}
	for {
		p, err := packets.Next()
		if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			if len(c.packets) == 0 {
				return err
			}
			c.cut = err.Error()
			break
		}
		r.take(c, p.At, p.IP)
	}
	return r.add(c)
}

// add adds a capture that has packets of the run.
func (r *Report) add(c *capture) error {
	switch {
	case len(c.packets) > 0:
	case len(r.endpoints.all) == 0:
		return errors.New("the record names no queue pair, so no packet can be assigned; the run failed before it had one")
	case c.others == 0:
		return errors.New("the capture has no packets")
	default:
		return errors.Errorf("none of the %d packets is for a queue pair of the run (%s); try: the capture of this run", c.others, r.names())
	}
	r.captures = append(r.captures, c)
	return nil
}

// names lists some of the queue pairs.
func (r *Report) names() string {
	var names []string
	for i, e := range r.endpoints.all {
		if i == 4 {
			names = append(names, "…")
			break
		}
		text := e.end + " " + hex24(e.qpn)
		if e.addr.IsValid() {
			text += " at " + e.addr.String()
		}
		names = append(names, text)
	}
	return strings.Join(names, ", ")
}

// take keeps a packet if it is of the run.
func (r *Report) take(c *capture, at time.Time, ip []byte) {
	d, err := dissect.Parse(ip)
	to := (*endpoint)(nil)
	if err == nil {
		to = r.receiver(d.Dst, d.DestQPN)
	}
	switch {
	case to == nil:
		c.others++
		return
	case len(c.packets) == maxPackets:
		c.omitted++
		c.before = maxPackets
		return
	}
	p := &packet{Packet: d, at: at, to: to, from: trace.OtherEnd(to.end)}
	p.shape, p.meanings = r.shape(&d)
	p.head = hex.EncodeToString(d.Frame[:min(len(d.Frame), d.Headers+min(payloadShown, d.Payload))])
	p.icrc = icrcOf(&d)
	p.Frame = nil // the reader's
	c.packets = append(c.packets, p)
}

// named returns the end whose events name the file of a capture, "" if neither does.
func (r *Report) named(c *capture) string {
	for i := range r.record.Events {
		e := &r.record.Events[i]
		if e.Event == event.CaptureBegun.Name() && filepath.Base(e.Attr("file").String()) == c.name {
			return e.End
		}
	}
	return ""
}
