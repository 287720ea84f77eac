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
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/verbstest"
	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/softroce/internal/packet"
	"github.com/rawverbs/rawverbs/verbs"
)

var (
	badSeed  = flag.Uint64("softroce.seed", 1, "first seed of the bad network's faults")
	badSeeds = flag.Uint64("softroce.seeds", 4, "number of seeds to run the conformance table with")
)

// badFaults let a packet and its answer both arrive in 19 of 20 tries. Seven failed tries in a
// row, which a case may not survive, have a probability of one in a billion.
var badFaults = link.Faults{Loss: 0.02, Duplicate: 0.02, Reorder: 0.05, Corrupt: 0.005}

func TestConformanceOnABadNetwork(t *testing.T) {
	bad := &badProvider{}
	verbs.Register(bad)
	for seed := *badSeed; seed < *badSeed+*badSeeds; seed++ {
		device := fmt.Sprint(badPrefix, seed)
		t.Run(device, func(t *testing.T) {
			bad.reset()
			verbstest.RunSimulated(t, device, verbstest.Quirks(t, device))
			bad.report(t)
			if t.Failed() {
				t.Logf("to run it again: go test ./softroce -run '%s' -softroce.seed=%d", t.Name(), seed)
			}
		})
	}
}

// badPrefix is the beginning of the device's name; the seed follows.
const badPrefix = "soft-bad:"

// badProvider opens devices, each with its own bad network. It adds up the statistics of the
// networks.
type badProvider struct {
	mu       sync.Mutex
	network  link.NetworkStatistics
	received link.Counters
}

func (*badProvider) Name() string { return "softroce on a bad network" }

func (*badProvider) Devices() ([]verbs.DeviceInfo, error) { return nil, nil }

func (b *badProvider) Open(name string) (verbs.ProviderDevice, error) {
	if !strings.HasPrefix(name, badPrefix) {
		return nil, syscall.ENODEV
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	network := link.NewNetwork(link.NetworkConfig{Seed: h.Sum64(), Faults: badFaults, Spare: notRC})
	// Over IPv6 the receiver knows all that the ICRC covers, so it detects all damage.
	l, err := network.Open(netip.MustParseAddr("fd00::1"))
	if err != nil {
		return nil, err
	}
	return newDevice(name, []*port{nil, {link: &badLink{Link: l, network: network, sum: b}, index: 1}}), nil
}

func notRC(raw []byte) bool { return packet.Opcode(raw[0]).Transport() != packet.RC }

// lastPackets is how long the closing of a link waits for packets that are still on their way,
// so that the statistics include all packets.
const lastPackets = 10 * time.Millisecond

// badLink is a link of a bad network.
type badLink struct {
	link.Link
	network *link.Network
	sum     *badProvider
	once    sync.Once
}

// Status adds the loopback interface, because GID table entries must have one.
func (l *badLink) Status() link.Status {
	s := l.Link.Status()
	all, _ := net.Interfaces() // if this fails, a case fails because the interface is missing
	if i := slices.IndexFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 }); i >= 0 {
		s.Interface = all[i].Name
	}
	return s
}

func (l *badLink) Close() error {
	l.once.Do(func() {
		time.Sleep(lastPackets)
		l.sum.add(l.network.Statistics(), l.Counters())
	})
	return l.Link.Close()
}

func (b *badProvider) add(n link.NetworkStatistics, c link.Counters) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.network.Sent += n.Sent
	b.network.Lost += n.Lost
	b.network.Duplicated += n.Duplicated
	b.network.Reordered += n.Reordered
	b.network.Corrupted += n.Corrupted
	for i := range c.Dropped {
		b.received.Dropped[i] += c.Dropped[i]
	}
}

func (b *badProvider) reset() { b.network, b.received = link.NetworkStatistics{}, link.Counters{} }

// report fails the test if the network had too few faults, or if the ICRC missed damage.
func (b *badProvider) report(t *testing.T) {
	n, noticed := b.network, b.received.Dropped[link.DropICRC]
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
