// The conformance table on a device whose network is bad: packets are lost, come
// twice, overtake each other, and have bits turned over.
//
//	go test ./softroce -run Conformance -softroce.seed=1 -softroce.seeds=20
//
// The device is this package's own, from the verbs down to sealing and checking
// the ICRC; only below that there is a simulated network instead of a socket, and
// all of it is in simulated time. Faults befall RC alone: a message that UC or UD
// loses stays lost, which no case can distinguish from a device that loses it. So every
// case that soft0 passes is demanded, and those of RC show that loss,
// duplication, reordering and damage are not seen above the transport. What they
// do not show: sockets and real time, which the same table on soft0 has, and what
// becomes of UC and UD messages with packets missing, which internal/transport
// tests.
//
// What befalls the packets of a case follows from the seed and the case's name, in
// the order that they are sent. Where several goroutines send, that order is the
// scheduler's: the seed then brings a failure back often, not always.

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
	badSeed  = flag.Uint64("softroce.seed", 1, "seed of the bad network's faults")
	badSeeds = flag.Uint64("softroce.seeds", 4, "with how many seeds to run the conformance table on it, from that one on")
)

// badFaults are such that a packet and its answer both arrive at 19 of 20 tries; seven
// in vain, which a case may not survive, are one in a billion.
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
				t.Logf("again with: go test ./softroce -run '%s' -softroce.seed=%d", t.Name(), seed)
			}
		})
	}
}

// badPrefix is followed by what the seed is made of.
const badPrefix = "soft-bad:"

// badProvider opens devices with a bad network each, and sums up what the networks
// did.
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
	// IPv6, where the ICRC covers nothing that is not known: no damage gets by.
	l, err := network.Open(netip.MustParseAddr("fd00::1"))
	if err != nil {
		return nil, err
	}
	return newDevice(name, []*port{nil, {link: &badLink{Link: l, network: network, sum: b}, index: 1}}), nil
}

func notRC(raw []byte) bool { return packet.Opcode(raw[0]).Transport() != packet.RC }

// lastPackets is how long a link that is being closed waits for packets that are
// still on their way, so that all of them were looked at.
const lastPackets = 10 * time.Millisecond

// badLink is a link of a bad network.
type badLink struct {
	link.Link
	network *link.Network
	sum     *badProvider
	once    sync.Once
}

// Status has an interface, as GID table entries must: that of loopback.
func (l *badLink) Status() link.Status {
	s := l.Link.Status()
	all, _ := net.Interfaces() // a case complains if there is none
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

// report fails the test if the network was not bad, or damage went unnoticed.
func (b *badProvider) report(t *testing.T) {
	n, noticed := b.network, b.received.Dropped[link.DropICRC]
	t.Logf("%d packets: %d lost, %d came twice, %d came late, %d damaged, of which the ICRC found %d",
		n.Sent, n.Lost, n.Duplicated, n.Reordered, n.Corrupted, noticed)
	const enough = 5000 // packets; a single case that was asked for has fewer
	if n.Sent > enough && (n.Lost == 0 || n.Duplicated == 0 || n.Reordered == 0 || n.Corrupted == 0) {
		t.Error("the network was not bad")
	}
	if noticed != n.Corrupted {
		t.Errorf("%d damaged packets got by", n.Corrupted-noticed)
	}
}
