// What devices are known to do otherwise, each with the reason. A line here is a
// claim that the run checks: the case must fail.

package verbstest

import (
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// Quirks are those of the kind of device that a name is of.
func Quirks(t *testing.T, device string) map[string]string {
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	attr, err := dev.Query()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case dev.Info().Provider == "softroce":
		return softQuirks
	case attr.VendorID == rxeVendor:
		return rxeQuirks
	}
	return nil
}

// rxeVendor is what rdma_rxe gives as its vendor.
const rxeVendor = 0xffffff

var softQuirks = map[string]string{}

// rxeQuirks are those of rdma_rxe in Linux 6.12 with rdma-core 44.
var rxeQuirks = map[string]string{}
