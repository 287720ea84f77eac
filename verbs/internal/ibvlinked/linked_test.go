//go:build linux && cgo

package ibvlinked

import (
	"syscall"
	"testing"

	_ "github.com/rawverbs/rawverbs/verbs" // whose functions must not take the place of libibverbs'
)

// TestLinkedPackageReachesLibibverbs: nothing has loaded libibverbs for package verbs, whose
// functions therefore all answer EOPNOTSUPP. Libibverbs itself answers ENOSYS, or lists devices.
func TestLinkedPackageReachesLibibverbs(t *testing.T) {
	if n, errno := Devices(); errno == syscall.EOPNOTSUPP {
		t.Errorf("ibv_get_device_list: %d devices, %v: the call went to package verbs", n, errno)
	}
}
