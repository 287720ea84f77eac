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
	want := map[WCStatus]uint64{WCStatus(numWCStatuses): 2}
	for s := range WCStatus(numWCStatuses) {
		want[s] = 0 // so that a metric exists before the first failure
	}
	if got := maps.Collect(new(WCCounts).All()); len(got) != numWCStatuses || got[WCGeneralErr] != 0 {
		t.Errorf("at first %v", got)
	}
	want[WCSuccess], want[WCWRFlushErr], want[WCRetryExcErr] = 3, 2, 1
	if got := maps.Collect(c.All()); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if last := WCStatus(numWCStatuses - 1).String(); last != "IBV_WC_TM_RNDV_INCOMPLETE" {
		t.Errorf("the last known status is %s", last)
	}
}
