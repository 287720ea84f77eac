package verbs

import (
	"maps"
	"testing"
)

// TestWCCounts counts successes, failures, and statuses that this package does not know.
func TestWCCounts(t *testing.T) {
	var c WCCounts
	c.add([]WC{{}, {}, {Status: WCWRFlushErr}})
	c.add([]WC{{Status: WCWRFlushErr}, {Status: 1000}, {Status: 1 << 31}})
	c.addEx([]WCEx{{}, {WC: WC{Status: WCRetryExcErr}}})
	want := map[WCStatus]uint64{WCSuccess: 3, WCWRFlushErr: 2, WCRetryExcErr: 1, WCStatus(numWCStatuses): 2}
	if got := maps.Collect(c.All()); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if last := WCStatus(numWCStatuses - 1).String(); last != "IBV_WC_TM_RNDV_INCOMPLETE" {
		t.Errorf("the last known status is %s", last)
	}
}
