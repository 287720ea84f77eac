// Capturing a run of a soft device into a pcap file.

package run

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/pcap"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// capture begins to write what dev sends and receives to o.PCAP, if that is set;
// closing what it returns ends it. An existing file is written over.
//
// also gets each packet too, if it is not nil.
func (o *Options) capture(dev *verbs.Device, log *slog.Logger, also sink) (io.Closer, error) {
	if o.PCAP == "" {
		if also != nil {
			stop, err := softroce.Capture(dev, also)
			return closerFunc(stop), err
		}
		return closerFunc(func() error { return nil }), nil
	}
	if err := softroce.CanCapture(dev); err != nil {
		return nil, errors.WithMessage(err, "--pcap")
	}
	file, err := os.Create(o.PCAP)
	if err != nil {
		return nil, fmt.Errorf("--pcap: %w; try: a file in a folder that exists and may be written", err)
	}
	out := bufio.NewWriter(file)
	packets, err := pcap.NewWriter(out)
	if err != nil {
		job.CloseAll(&err, file)
		return nil, errors.WithMessage(err, "--pcap")
	}
	stop, err := softroce.Capture(dev, both(packets.Packet, also))
	if err != nil {
		job.CloseAll(&err, file)
		return nil, errors.WithMessage(err, "--pcap")
	}
	event.CaptureBegun.Log(log, "capture packets", slog.String("file", o.PCAP))
	return closerFunc(func() error {
		err := stop()
		if err == nil {
			err = out.Flush()
		}
		job.CloseAll(&err, file)
		return err
	}), nil
}

// sink takes packets; see softroce.Capture.
type sink func(at time.Time, ip []byte) error

// both gives each packet to two sinks, of which the second may be nil.
func both(a, b sink) sink {
	if b == nil {
		return a
	}
	return func(at time.Time, ip []byte) error {
		if err := a(at, ip); err != nil {
			return err
		}
		return b(at, ip)
	}
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }
