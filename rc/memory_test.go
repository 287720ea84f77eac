package rc

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestClosedRegionsAreForgotten closes regions of a Conn, of a server's Conn and of a Server, all of which stay open.
// The collector frees the memory, except that of a region with a slice that the program still has.
func TestClosedRegionsAreForgotten(t *testing.T) {
	records := &recorder{}
	handled, stop := make(chan *Conn), make(chan struct{})
	s := serve(t, ServerConfig{Config: Config{Logger: slog.New(records)}}, func(_ context.Context, c *Conn) error {
		handled <- c
		<-stop
		return nil
	})
	defer close(stop)
	client, _ := s.mustClient(t)
	for name, alloc := range map[string]func(string, int, verbs.Access) (*verbs.MR, error){
		"a Conn": client.AllocMR, "a server's Conn": (<-handled).AllocMR, "a Server": s.AllocMR,
	} {
		const regions, size = 64, 1 << 20
		var collected atomic.Int32
		var kept []byte
		for i := range regions {
			mr, err := alloc(fmt.Sprintf("region %d of %s", i, name), size, everyRight)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				kept = mr.Bytes()
				kept[size-1] = 7
			}
			runtime.AddCleanup(&mr.Bytes()[0], func(int32) { collected.Add(1) }, 0)
			if err := mr.Close(); err != nil {
				t.Fatal(err)
			}
		}
		testkit.Until(t, "collection of the closed regions of "+name, func() bool {
			runtime.GC()
			return collected.Load() == regions-1
		}, func() string { return fmt.Sprintf("%d of %d were collected", collected.Load(), regions-1) })
		if kept[size-1] != 7 {
			t.Error("a closed region's memory has changed")
		}
	}
	if n := records.count("free memory region region "); n != 128 {
		t.Errorf("%d records of 128 regions that were closed at the server", n)
	}
}
