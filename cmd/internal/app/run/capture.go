// Capturing a run of a soft device into a pcap file.

package run

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/pcap"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// capture begins to write what dev sends and receives to o.PCAP, if that is set;
// closing what it returns ends it. An existing file is written over.
//
// also gets each packet too, if it is not zero; without o.PCAP only those that it wants.
func (o *Options) capture(dev *verbs.Device, log *slog.Logger, also sink) (io.Closer, error) {
	switch {
	case o.PCAP == "" && also.packet == nil:
		return closerFunc(func() error { return nil }), nil
	case o.PCAP == "":
		stop, err := softroce.CaptureOnly(dev, also.wanted, also.packet)
		if err != nil {
			return nil, err
		}
		return closerFunc(stop), nil
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
		kit.CloseAll(&err, file)
		return nil, errors.WithMessage(err, "--pcap")
	}
	stop, err := softroce.Capture(dev, func(at time.Time, ip []byte) error {
		err := packets.Packet(at, ip)
		if err == nil && also.packet != nil {
			err = also.packet(at, ip)
		}
		return err
	})
	if err != nil {
		kit.CloseAll(&err, file)
		return nil, errors.WithMessage(err, "--pcap")
	}
	event.CaptureBegun.Log(log, "capture packets", slog.String("file", o.PCAP))
	return closerFunc(func() error {
		err := stop()
		if err == nil {
			err = out.Flush()
		}
		kit.CloseAll(&err, file)
		return err
	}), nil
}

// sink takes packets; see softroce.CaptureOnly.
type sink struct {
	packet func(at time.Time, ip []byte) error
	wanted func(to netip.Addr, qpn uint32) bool // nil: all packets are wanted
}

type closerFunc func() error

func (f closerFunc) Close() error { return f() }
