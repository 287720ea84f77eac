package eventqueue

import "testing"

// TestAFatalEventStays: no number of other events displaces the fatal one.
func TestAFatalEventStays(t *testing.T) {
	const other, fatal = 1, 2
	var q Queue[int]
	q.Init(func(e int) bool { return e == fatal })
	q.Put(other)
	q.Put(fatal)
	for range 3 * Most {
		q.Put(other)
	}
	if e, ok := q.Wait(); e != fatal || !ok {
		t.Errorf("the oldest event is %v, %v", e, ok)
	}
}
