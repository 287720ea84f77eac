//go:build race

package testkit

import "time"

// Limit is the limit of every wait in real time. A wait that lasts so long has failed.
const Limit = 3 * time.Minute

// Race reports whether the race detector watches this test. Tests run about ten times slower then, and
// allocate more.
const Race = true
