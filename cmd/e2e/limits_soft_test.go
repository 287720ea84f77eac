//go:build !rdma && linux

// A server whose process may not have much memory.

package e2e

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rawverbs/rawverbs/oob"
)

// limited is the prefix of a command whose address space may have so many KiB.
func limited(kib int64) []string {
	return []string{"sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$@"`, kib), "sh"}
}

// TestLittleAddressSpace has strangers ask for much memory of a server whose address space has a limit. Go ends a
// process that gets no more addresses, so the server must refuse the strangers before that.
func TestLittleAddressSpace(t *testing.T) {
	noLeak(t)
	usual := serve(t)
	inUse := status(t, usual.process, "VmSize") >> 10
	usual.stops()

	// Go's heap begins at a random address, so another start may take 64 MiB more.
	refused := startBy(t, limited(inUse+128<<10), "rdma_server", device, "0")
	refused.fails(1, "clients need 8 MiB of memory, and 0 MiB are left", fmt.Sprintf("the address space of a process (RLIMIT_AS) is %d MiB", inUse>>10+128), "try: ulimit -v ")
	_, try, _ := strings.Cut(refused.stderr.String(), "try: ulimit -v ")
	try, _, _ = strings.Cut(try, ",")
	enough, err := strconv.ParseInt(try, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := serveBy(t, limited(enough))
	s.client(t).succeeds()
	s.stops()

	enough += 200 << 10
	startBy(t, limited(enough), "rdma_server", device, "0", "--max-memory", "2G").fails(1, "clients need 2048 MiB of memory", "or --max-memory ")
	peak := manyHellos(t, func() *server { return serveBy(t, limited(enough)) })
	t.Logf("of %d MiB of addresses, a server without clients took %d, and at most %d with them", enough>>10, inUse>>10, peak>>20)
}

// manyHellos has strangers ask servers for much memory, in different ways, and returns the most addresses that a
// server had then.
func manyHellos(t *testing.T, begin func() *server) (most int64) {
	dev := openDevice(t)
	for name, hello := range map[string]oob.Hello{
		"64 queue pairs of 1,015 requests": bulkHello(map[string]string{"bytes": "1099511627776", "chunk": "1", "outstanding": "1015", "qps": "64"}),
		"READs of 16 MiB":                  bulkHello(map[string]string{"op": "read", "bytes": "1099511627776", "chunk": "16384", "outstanding": "1024"}),
		"buffers of 16 MiB":                {Job: "send", Params: map[string]string{"size": "16777216"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin()
			var held sync.Map
			var strangers sync.WaitGroup
			for i := range 64 {
				strangers.Go(func() {
					if nc := sayHello(t, s, hostile, hello, true); nc != nil {
						held.Store(i, nc)
					}
				})
			}
			strangers.Wait()
			stillServesHonest(t, s, dev)
			s.event("client.failed") // refused, or ended for another
			most = max(most, status(t, s.process, "VmPeak"))
			held.Range(func(_, nc any) bool { nc.(net.Conn).Close(); return true })
		})
	}
	return most
}
