// Package version has the version of this build.
package version

import (
	"cmp"
	"runtime/debug"
)

// linked is the VERSION of make, with a v: -ldflags "-X …/cmd/internal/app/version.linked=v1.2.3".
var linked string

// String returns the version that the build was given; otherwise what Go has read from git, such as
// v0.0.0-20261126233828-2048cedab123; or "(devel)".
func String() string {
	var stamped string
	if info, ok := debug.ReadBuildInfo(); ok {
		stamped = info.Main.Version
	}
	return cmp.Or(linked, stamped, "(devel)")
}
