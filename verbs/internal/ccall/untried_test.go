//go:build linux && cgo && amd64 && go1.27 && !race && !msan && !asan && !cgocalls

package ccall

import (
	"runtime"
	"testing"
)

// TestThisGoWasTried fails with a Go that is newer than direct.go's, where all calls go
// through cgo: right, and slower.
func TestThisGoWasTried(t *testing.T) {
	t.Errorf("calls past the scheduler were not tried with %s; try: letting it in by the build constraints of this package's files, the tests here, and make bench-c", runtime.Version())
}
