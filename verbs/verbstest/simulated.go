// Running the table in simulated time.

package verbstest

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// RunSimulated is like Run, for a device without sockets, in simulated time. Each case runs in
// a bubble of testing/synctest, where the clock advances only when no goroutine can run. So
// waiting takes no real time, and a busy machine cannot make a case exceed its time limits.
// Goroutines that a case or its device leaves behind end the run.
//
// Each case opens its own device, named device + "/" + the case's ID. So a device can derive
// its faults from the name: they differ from case to case, but do not depend on which other
// cases run.
func RunSimulated(t *testing.T, device string, quirks map[string]string) {
	runCases(t, device, Cases(), quirks, func(t *testing.T, c Case, patience time.Duration) (o outcome) {
		defer time.AfterFunc(testkit.Limit, func() { spins(c) }).Stop()
		synctest.Test(t, func(t *testing.T) { o = c.execute(t.Context(), device+"/"+c.ID(), patience, true) })
		return o
	})
}

// spins ends the run by a panic, because a bubble cannot be left while one of its goroutines
// runs.
func spins(c Case) {
	fmt.Fprintf(os.Stderr, "%s\n", stacks())
	panic(fmt.Sprintf("%s: took %v of real time; does a goroutine spin until a certain time? "+
		"Simulated time stands still meanwhile; try: call time.Sleep in the loop, or count iterations", c.ID(), testkit.Limit))
}
