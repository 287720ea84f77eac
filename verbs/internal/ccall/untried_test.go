//go:build linux && cgo && amd64 && go1.27 && !race && !msan && !asan && !cgocalls

package ccall

import (
	"runtime"
	"testing"
)

// TestThisGoWasTried fails with a newer Go than direct.go allows. All calls then go through
// cgo, which is correct but slower.
func TestThisGoWasTried(t *testing.T) {
	t.Errorf("direct calls were not tested with %s; try: allowing this Go version in the build constraints of this package, then go test ./verbs/internal/ccall and make bench-c", runtime.Version())
}
