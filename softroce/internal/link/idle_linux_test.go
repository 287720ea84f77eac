package link

import (
	"bytes"
	"runtime"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestIdle checks that waiting links hold no thread: their goroutines wait in the runtime's poller.
func TestIdle(t *testing.T) {
	var wg sync.WaitGroup
	links := make([]*Socket, 40)
	for i := range links {
		links[i] = loopback(t, Config{})
		wg.Go(func() { _ = links[i].Receive(NewIngress()) })
	}
	stacks := make([]byte, 1<<20)
	testkit.Until(t, "link that waits in the poller, for each link", func() bool {
		stacks = stacks[:cap(stacks)]
		stacks = stacks[:runtime.Stack(stacks, true)]
		waiting := 0
		for g := range bytes.SplitSeq(stacks, []byte("\n\n")) {
			if bytes.Contains(g, []byte(".(*Socket).Receive(")) && bytes.Contains(g, []byte(" [IO wait")) {
				waiting++
			}
		}
		return waiting == len(links)
	}, func() string { return string(stacks) })
	for _, l := range links {
		l.Close()
	}
	wg.Wait()
}
