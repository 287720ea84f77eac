package softroce_test

import (
	"fmt"
	"log"
	"time"

	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// Counts the packets of a soft device. To make a file for Wireshark, pass the packets to the
// writer of a pcap library, such as gopacket's pcapgo with LinkTypeRaw.
func ExampleCapture() {
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	packets := 0
	stop, err := softroce.Capture(dev, func(at time.Time, ip []byte) error {
		packets++
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// … the queue pairs of dev talk …
	if err := stop(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(packets, "packets")
	// Output: 0 packets
}
