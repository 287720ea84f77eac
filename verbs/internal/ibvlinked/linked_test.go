//go:build linux && cgo

package ibvlinked

import (
	"syscall"
	"testing"

	_ "github.com/rawverbs/rawverbs/verbs" // its C functions must not replace those of libibverbs
)

// TestLinkedPackageReachesLibibverbs checks that the call reaches libibverbs, which lists
// devices or returns ENOSYS. Package verbs has not loaded libibverbs here, so its own C
// functions would return EOPNOTSUPP.
func TestLinkedPackageReachesLibibverbs(t *testing.T) {
	if n, errno := Devices(); errno == syscall.EOPNOTSUPP {
		t.Errorf("ibv_get_device_list: %d devices, %v: the call went to package verbs", n, errno)
	}
}
