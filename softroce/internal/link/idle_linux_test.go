// Test that waiting links hold no thread; /proc has the number of threads.

package link

import (
	"os"
	"sync"
	"testing"
	"time"
)

// TestIdle checks that waiting links hold no thread.
func TestIdle(t *testing.T) {
	threads := func() int {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		return len(tasks)
	}
	before := threads()
	var wg sync.WaitGroup
	links := make([]*Socket, 40)
	for i := range links {
		links[i] = loopback(t, Config{})
		wg.Go(func() { _ = links[i].Receive(NewIngress()) })
	}
	time.Sleep(20 * time.Millisecond)
	if n := threads(); n > before+10 {
		t.Errorf("%d threads before, %d with %d links", before, n, len(links))
	}
	for _, l := range links {
		l.Close()
	}
	wg.Wait()
}
