// Running the table in simulated time.

package verbstest

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// RunSimulated is Run for a device without sockets, in simulated time: each case
// is in a bubble of testing/synctest, where the clock moves when nobody can. So
// waiting costs nothing, and no limit of a case is too tight for a busy machine.
// Goroutines that a case or its device leaves behind end the run.
//
// Each case opens a device of its own name, device and the case's ID with a slash
// between, so that a device with faults can have others for each case, and the
// same for one case, whichever else run.
func RunSimulated(t *testing.T, device string, quirks map[string]string) {
	runCases(t, device, Cases(), quirks, func(t *testing.T, c Case) (o outcome) {
		defer time.AfterFunc(spinTime, func() { spins(c) }).Stop()
		synctest.Test(t, func(t *testing.T) { o = c.execute(t.Context(), device+"/"+c.ID()) })
		return o
	})
}

// spinTime is how long a case may take in real time.
const spinTime = time.Minute

// spins ends the run. The bubble cannot be left while a goroutine of it runs.
func spins(c Case) {
	fmt.Fprintf(os.Stderr, "%s\n", stacks())
	panic(fmt.Sprintf("%s: %v of real time; does a goroutine spin until a time comes? "+
		"Simulated time stands still meanwhile; try: time.Sleep between, or counting instead", c.ID(), spinTime))
}
