//go:build rdma

// The table on the device in RDMA_TEST_DEVICE: rxe0 in the virtual machine (make test-rxe), or
// hardware.

package verbstest

import (
	"testing"

	"github.com/rawverbs/rawverbs/softroce/softtest"
)

func TestDevice(t *testing.T) {
	name := softtest.Name(t)
	Run(t, name, Quirks(t, name))
}
