//go:build linux && cgo

// The packets of the device, for Wireshark (rawverbs run --pcap).

package main

import "C"

import (
	"fmt"
	"os"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/internal/pcap"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// startCapture writes the packets to the file of RAWVERBS_PCAP, if that is set. A process that opens
// the device again goes on in its file.
func startCapture(d *verbs.Device) error {
	packets, err := capture()
	if err == nil && packets != nil {
		_, err = softroce.Capture(d, packets.Packet)
	}
	return errors.WithMessage(err, "--pcap")
}

// capture makes the file of this process; further processes add their process id to the name. It
// returns nil if RAWVERBS_PCAP is not set. Nothing is buffered, because many programs exit without
// closing the device.
var capture = sync.OnceValues(func() (*pcap.Writer, error) {
	name := os.Getenv("RAWVERBS_PCAP")
	if name == "" {
		return nil, nil
	}
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	file, err := os.OpenFile(name, flags, 0o666)
	if errors.Is(err, os.ErrExist) {
		file, err = os.OpenFile(fmt.Sprintf("%s.%d", name, os.Getpid()), flags, 0o666)
	}
	if err != nil {
		return nil, errors.WithMessage(err, "try: a file in a folder that exists and may be written")
	}
	_ = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) // another rawverbs run does not remove it then
	return pcap.NewWriter(file)
})
