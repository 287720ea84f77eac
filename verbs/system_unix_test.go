//go:build unix

package verbs

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHintNamesTheLockedMemoryLimit lowers the limit and asks for the hint.
func TestHintNamesTheLockedMemoryLimit(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &old); err != nil {
			t.Error(err)
		}
	}()
	low := old
	low.Cur = 48 << 10
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &low); err != nil {
		t.Fatal(err)
	}
	for _, op := range []string{"ibv_reg_mr", "ibv_create_cq", "ibv_create_qp", "ibv_whatever"} {
		err := fail(op, "rxe0", "", syscall.ENOMEM)
		if !strings.HasSuffix(err.Error(), "LimitMEMLOCK= of the service), now 48 KiB") {
			t.Errorf("%v", err)
		}
	}
}
