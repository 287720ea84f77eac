package softroce_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// What a soft device sends and receives, as a file for Wireshark.
func ExampleCapture() {
	dev, err := verbs.Open("soft0")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	var file bytes.Buffer
	stop, err := softroce.Capture(dev, &file)
	if err != nil {
		log.Fatal(err)
	}
	// … the queue pairs of dev talk …
	if err := stop(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("magic % x\n", file.Bytes()[:4])
	// Output: magic 4d 3c b2 a1
}
