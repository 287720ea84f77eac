package softroce_test

import (
	"bytes"
	"encoding/binary"
	stderrors "errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/diagnosis/errno"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

func TestSoft0IsListedLast(t *testing.T) {
	devices, err := verbs.Devices() // libibverbs may list no devices; its error is ignored
	if len(devices) == 0 {
		t.Fatal(err)
	}
	if last := devices[len(devices)-1]; last.Name != "soft0" || last.Provider != "softroce" {
		t.Errorf("the last device is %v, want soft0 of softroce", last)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"soft0":          "",
		"soft:127.1.2.3": "",
		"soft1":          "no device of that name",
		"soft":           "no device of that name",
		"soft:":          "interfaces",
		"soft:nosuch0":   "the interfaces of this host: lo",
		"soft:192.0.2.1": "address that this host has",
		"soft:1.2.3.4.5": "interface",
	} {
		dev, err := verbs.Open(name)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			if i := dev.Info(); i.Name != name || i.Provider != "softroce" || i.NodeType != verbs.NodeCA || i.Transport != verbs.TransportIB {
				t.Errorf("%q: Info: %+v", name, i)
			}
			dev.Close()
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v; want %q", name, err, want)
		}
	}
}

func TestAnAddressHasOneOwner(t *testing.T) {
	openSoft(t, "soft:127.9.9.9")
	_, err := verbs.Open("soft:127.9.9.9")
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "127.9.9.9") || !strings.Contains(err.Error(), "try:") {
		t.Errorf("opening an address twice: %v; want EADDRINUSE with the address and a remedy", err)
	}
	a, b := openSoft(t, "soft0"), openSoft(t, "soft0")
	if gidOf(t, a) == gidOf(t, b) {
		t.Error("two soft0 devices have the same address")
	}
}

func gidOf(t testing.TB, dev *verbs.Device) netip.Addr {
	table, err := dev.QueryGIDTable()
	if err != nil || len(table) == 0 {
		t.Fatal(table, err)
	}
	return table[0].GID.Addr()
}

func TestAttributes(t *testing.T) {
	dev := openSoft(t, "soft0")
	table, err := dev.QueryGIDTable()
	if err != nil || len(table) != 1 || table[0].Index != 1 || table[0].Type != verbs.GIDTypeRoCEv2 || !table[0].GID.Addr().IsLoopback() {
		t.Errorf("GID table %v, %v", table, err)
	}
	port, err := dev.QueryPort(1)
	if err != nil || port.State != verbs.PortActive || port.ActiveMTU != qpstate.MTU4096 || port.LinkLayer != verbs.LinkEthernet {
		t.Errorf("port %+v, %v", port, err)
	}
	if _, err := dev.QueryPort(2); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("port 2: %v", err)
	}
	if key, err := dev.QueryPKey(1, 0); key != 0xffff || err != nil {
		t.Errorf("P_Key %#x, %v", key, err)
	}
	if _, err := dev.QueryPKey(1, 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("P_Key 1: %v", err)
	}
	attr, err := dev.Query()
	if err != nil || attr.PhysPortCnt != 1 || attr.NodeGUID == 0 {
		t.Errorf("device %+v, %v", attr, err)
	}
}

// TestRun: a run's packets, and their headers, fit into a datagram.
func TestRun(t *testing.T) {
	dev := openSoft(t, "soft0")
	for mtu, want := range map[int]int{256: 64, 1024: 62, 4096: 15} {
		if n := dev.Run(mtu); n != want {
			t.Errorf("MTU %d: %d packets, want %d", mtu, n, want)
		}
	}
}

func TestPathErrors(t *testing.T) {
	dev := openSoft(t, "soft0")
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	defer pd.Close()
	to := func(ip string, index uint8) verbs.AHAttr {
		return verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: qpstate.GIDFrom(netip.MustParseAddr(ip)), SGIDIndex: index}}
	}
	for name, c := range map[string]struct {
		attr verbs.AHAttr
		want error
	}{
		"an empty slot":    {to("127.0.0.1", 0), errno.NoData},
		"beyond the table": {to("127.0.0.1", 9), errno.NoData},
		"another family":   {to("fd00::1", 1), syscall.EINVAL},
		"not global":       {verbs.AHAttr{PortNum: 1}, syscall.EINVAL},
		"another port":     {func() verbs.AHAttr { a := to("127.0.0.1", 1); a.PortNum = 2; return a }(), syscall.EINVAL},
	} {
		if _, err := pd.CreateAH(c.attr); !errors.Is(err, c.want) {
			t.Errorf("%s: %v; want %v", name, err, c.want)
		}
	}
	ah, err := pd.CreateAH(to("127.0.0.1", 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := ah.Close(); err != nil {
		t.Error(err)
	}
}

func TestCapture(t *testing.T) {
	a, b := openSoft(t, "soft0"), openSoft(t, "soft0")
	packets := make(chan []byte, 1) // holds the first packet
	stop, err := softroce.Capture(a, func(_ time.Time, ip []byte) error {
		select {
		case packets <- bytes.Clone(ip):
		default:
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ignore := func(time.Time, []byte) error { return nil }
	if _, err := softroce.Capture(a, ignore); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("a second capture: %v; want EBUSY", err)
	}
	c, s := connect(t, a, b, rc.Config{})
	ping, pong := newPinger(t, c, 8), newPinger(t, s, 8)
	if err := ping.send(); err != nil {
		t.Fatal(err)
	}
	if err := pong.recv(testkit.Context(t)); err != nil {
		t.Fatal(err)
	}
	packet := testkit.Receive(t, packets, "packet")
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if from, _ := netip.AddrFromSlice(packet[12:16]); packet[0] != 0x45 || from != gidOf(t, a) || packet[28] != 0x04 {
		t.Errorf("the first packet is % x; want an IPv4 header from %v and an RC SEND Only", packet[:40], gidOf(t, a))
	}
	calls := 0
	stop, err = softroce.Capture(a, func(time.Time, []byte) error {
		calls++
		return errFull
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := stderrors.Join(ping.send(), ping.send()); err != nil {
		t.Fatal(err)
	}
	if err := stop(); !errors.Is(err, errFull) {
		t.Errorf("stop: %v; want the error of packet", err)
	}
	if calls != 1 {
		t.Errorf("%d calls; want 1, because the first failed", calls)
	}
	stop, err = softroce.Capture(a, ignore)
	if err != nil {
		t.Fatalf("a capture after the last one was stopped: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A packet that is not wanted does not come, and does not wait for the lock of those that are.
func TestCaptureOnly(t *testing.T) {
	a, b := openSoft(t, "soft0"), openSoft(t, "soft0")
	c, s := connect(t, a, b, rc.Config{})
	ping, pong := newPinger(t, c, 8), newPinger(t, s, 8)
	var destinations atomic.Int64
	want, wrong := s.QP().QPN(), 0
	given := make(chan struct{}, 1)
	var open atomic.Bool
	stop, err := softroce.CaptureOnly(a, func(to netip.Addr, qpn uint32) bool {
		if to == gidOf(t, b) && qpn == want {
			destinations.Add(1)
		}
		return open.Load() && qpn == want
	}, func(_ time.Time, ip []byte) error {
		if got := binary.BigEndian.Uint32(ip[20+8+4:]) & 0xffffff; got != want {
			wrong++
		}
		select {
		case given <- struct{}{}:
		default:
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := testkit.Context(t)
	trip := func() error { return stderrors.Join(ping.send(), pong.recv(ctx), pong.send(), ping.recv(ctx)) }
	unlock := sync.OnceFunc(softroce.LockCapture(a))
	defer unlock()
	beside := make(chan error, 1)
	go func() { beside <- trip() }()
	if err := testkit.Receive(t, beside, "end of a round trip whose packets nobody wants, beside the lock"); err != nil {
		t.Fatal(err)
	}
	unlock()
	if destinations.Load() == 0 {
		t.Errorf("no packet to %v, queue pair %#x", gidOf(t, b), want)
	}
	select {
	case <-given:
		t.Error("a packet came that was not wanted")
	default:
	}
	open.Store(true)
	if err := trip(); err != nil {
		t.Fatal(err)
	}
	testkit.Receive(t, given, "packet that is wanted")
	if err := stop(); err != nil || wrong != 0 {
		t.Errorf("%d packets to another queue pair; stop: %v", wrong, err)
	}
}

var errFull = stderrors.New("no space left")

func TestCloseEndsTheEvents(t *testing.T) {
	dev, err := verbs.Open("soft0")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Subscribe(func(e verbs.AsyncEvent) { t.Errorf("an event of a closed device: %v", e) })()
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
	if _, err := dev.AllocPD(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("AllocPD: %v", err)
	}
}
