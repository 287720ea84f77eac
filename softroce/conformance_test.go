// The conformance table on a device with a bad network, which loses, duplicates, reorders and
// damages packets.
//
//	go test ./softroce -run Conformance -softroce.seed=1 -softroce.seeds=20
//
// The device is this package's own, from the verbs down to the ICRC. Only the sockets are
// replaced by a simulated network, and the time is simulated too.
//
// Faults hit RC packets only. No case could distinguish a lost UC or UD message from a device
// that loses it. So all cases that soft0 passes must pass here, and those of RC show that
// faults are not visible above the transport. This test does not cover sockets and real time,
// which the same table on soft0 does, nor UC and UD messages with missing packets, which the
// tests of internal/transport do.
//
// The faults of a case follow from the seed, the case's name and the order in which packets
// are sent. If several goroutines send, that order depends on the scheduler: the same seed
// then reproduces a failure often, but not always.

package softroce

import (
	"flag"
	"fmt"
	"hash/fnv"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/softroce/internal/wire"
	"github.com/rawverbs/rawverbs/verbs"
	"github.com/rawverbs/rawverbs/verbs/verbstest"
)

var (
	badSeed  = flag.Uint64("softroce.seed", 1, "first seed of the bad network's faults")
	badSeeds = flag.Uint64("softroce.seeds", 4, "number of seeds to run the conformance table with")
)

// badFaults let a packet and its answer both arrive in 19 of 20 tries. Seven failed tries in a
// row, which a case may not survive, have a probability of one in a billion.
var badFaults = wire.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.05, Late: 100 * time.Microsecond, Corrupt: 0.005}

func TestConformanceOnABadNetwork(t *testing.T) {
	bad := theBadProvider()
	for seed := *badSeed; seed < *badSeed+*badSeeds; seed++ {
		device := fmt.Sprint(badPrefix, seed)
		t.Run(device, func(t *testing.T) {
			bad.links = nil
			verbstest.RunSimulated(t, device, verbstest.Quirks(t, device))
			bad.report(t)
			if t.Failed() {
				t.Logf("to run it again: go test ./softroce -run '%s' -softroce.seed=%d", t.Name(), seed)
			}
		})
	}
}

// theBadProvider registers the provider once, however often the test runs (-count).
var theBadProvider = sync.OnceValue(func() *badProvider {
	bad := &badProvider{}
	verbs.Register(bad)
	return bad
})

// badPrefix is the beginning of the device's name; the seed follows.
const badPrefix = "soft-bad:"

// badProvider opens devices, each with its own bad network.
type badProvider struct {
	mu    sync.Mutex
	links []*simLink
}

func (*badProvider) Name() string { return "softroce on a bad network" }

func (*badProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (b *badProvider) Open(name string) (verbs.ProviderDevice, error) {
	if !strings.HasPrefix(name, badPrefix) {
		return nil, syscall.ENODEV
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	n := newNetwork(h.Sum64(), badFaults)
	n.spares = notRC
	// Over IPv6 the receiver knows all that the ICRC covers, so it detects all damage.
	l := n.end(netip.MustParseAddr("fd00::1"))
	b.mu.Lock()
	defer b.mu.Unlock()
	b.links = append(b.links, l)
	return newDevice(name, []*port{{link: l, gidIndex: 1}}), nil
}

func notRC(raw []byte) bool { return packet.Opcode(raw[0]).Transport() != packet.RC }

// report fails the test if the network had too few faults, or if the ICRC missed damage.
func (b *badProvider) report(t *testing.T) {
	var n wire.Statistics
	var noticed uint64
	for _, l := range b.links {
		s := l.network.statistics()
		n.Sent, n.Lost, n.Duplicated, n.Reordered, n.Corrupted = n.Sent+s.Sent, n.Lost+s.Lost, n.Duplicated+s.Duplicated, n.Reordered+s.Reordered, n.Corrupted+s.Corrupted
		noticed += l.Counters()[link.DropICRC]
	}
	t.Logf("%d packets: %d lost, %d duplicated, %d reordered, %d damaged, of which the ICRC found %d",
		n.Sent, n.Lost, n.Duplicated, n.Reordered, n.Corrupted, noticed)
	const enough = 5000 // a single case run by -run has fewer packets
	if n.Sent > enough && (n.Lost == 0 || n.Duplicated == 0 || n.Reordered == 0 || n.Corrupted == 0) {
		t.Error("the network had too few faults")
	}
	if noticed != n.Corrupted {
		t.Errorf("the ICRC missed %d damaged packets", n.Corrupted-noticed)
	}
}
