package serial

import (
	"slices"
	"testing"
)

func TestInOrderAndWithoutWaiting(t *testing.T) {
	var q Queue
	var ran, want []int
	release := make(chan struct{})
	q.Do(func() { <-release })
	for i := range 100 {
		q.Do(func() { ran = append(ran, i) })
		want = append(want, i)
	}
	close(release)
	q.Wait()
	if !slices.Equal(ran, want) {
		t.Errorf("ran %v", ran)
	}
	q.Do(func() { ran = nil })
	q.Wait()
	if ran != nil {
		t.Error("a function queued after Wait did not run")
	}
}
