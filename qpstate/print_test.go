package qpstate

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestNamesMatchC(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{RC, "IBV_QPT_RC"}, {Type(9), "IBV_QPT_9"},
		{Reset, "IBV_QPS_RESET"}, {Error, "IBV_QPS_ERR"}, {State(200), "IBV_QPS_200"},
		{MaskState | MaskPort, "IBV_QP_STATE|IBV_QP_PORT"}, {Mask(0), "0"}, {Mask(1 << 31), "IBV_QP_0x80000000"},
		{MTU1024, "IBV_MTU_1024"}, {MTU(9), "ibv_mtu(9)"},
		{AccessLocalWrite | AccessRemoteRead, "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_REMOTE_READ"},
		{Access(0), "0"}, {Access(1 << 30), "0x40000000"},
		{MigArmed, "IBV_MIG_ARMED"}, {MigState(7), "ibv_mig_state(7)"},
		{GIDFrom(netip.MustParseAddr("10.99.0.1")), "::ffff:10.99.0.1"}, {GID{0: 0xfe, 1: 0x80, 15: 1}, "fe80::1"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T: got %q, want %q", c.value, got, c.want)
		}
	}
}

func TestEveryBitHasNameAndText(t *testing.T) {
	for _, b := range bitNames {
		if len(b.bit.Bits()) != 1 || b.bit.About() == "" || strings.HasPrefix(b.bit.Name(), "0x") {
			t.Errorf("%v: %q", b.bit, b.bit.About())
		}
		if (&Attr{}).Value(b.bit) == "?" {
			t.Errorf("%v has no printed value", b.bit)
		}
	}
	if got := Mask(1 << 30).About(); got != "" {
		t.Errorf("an unknown bit means %q", got)
	}
}

func TestTimers(t *testing.T) {
	for code, want := range map[uint8]time.Duration{
		0: 655360 * time.Microsecond, 1: 10 * time.Microsecond, 12: 640 * time.Microsecond,
		14: 1280 * time.Microsecond, 31: 491520 * time.Microsecond,
		32 + 1: 10 * time.Microsecond, 32 + 12: 640 * time.Microsecond,
	} {
		if got := RNRTimer(code); got != want {
			t.Errorf("RNRTimer(%d) = %v, want %v", code, got, want)
		}
	}
	for code, want := range map[uint8]time.Duration{
		0: 0, 1: 8192 * time.Nanosecond, 14: 67108864 * time.Nanosecond, 31: 8796093022208 * time.Nanosecond,
		32 + 14: 67108864 * time.Nanosecond,
	} {
		if got := ACKTimeout(code); got != want {
			t.Errorf("ACKTimeout(%d) = %v, want %v", code, got, want)
		}
	}
}

// TestRNRTimersAscend checks that each code but 0 waits longer than the code before it.
func TestRNRTimersAscend(t *testing.T) {
	for code := uint8(2); code < 32; code++ {
		if RNRTimer(code) <= RNRTimer(code-1) {
			t.Errorf("code %d is %v, code %d %v", code-1, RNRTimer(code-1), code, RNRTimer(code))
		}
	}
}

func TestMTU(t *testing.T) {
	for n, want := range map[int]MTU{256: MTU256, 512: MTU512, 1024: MTU1024, 2048: MTU2048, 4096: MTU4096} {
		if got, ok := MTUFor(n); !ok || got != want || got.Bytes() != n {
			t.Errorf("MTUFor(%d) = %v, %v", n, got, ok)
		}
	}
	for _, n := range []int{-1, 0, 128, 1500, 8192} {
		if got, ok := MTUFor(n); ok {
			t.Errorf("MTUFor(%d) = %v", n, got)
		}
	}
}

func TestStepPrintsMaskAndValues(t *testing.T) {
	s := Step{Type: RC, From: Reset, To: Init, Mask: 0x39,
		Attr: Attr{State: Init, PortNum: 1, Access: AccessRemoteWrite}}
	want := "RC RESET→INIT mask 0x39 (STATE|ACCESS_FLAGS|PKEY_INDEX|PORT): ACCESS_FLAGS=REMOTE_WRITE PKEY_INDEX=0 PORT=1"
	if got := s.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a := Attr{Timeout: 14, RNRRetry: 7, MinRNRTimer: 12}
	want = "TIMEOUT=14 (67.108864ms) RNR_RETRY=7 (forever) MIN_RNR_TIMER=12 (640µs)"
	if got := a.Describe(MaskState | MaskTimeout | MaskRNRRetry | MaskMinRNRTimer); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	a = Attr{Timeout: 32, MinRNRTimer: 99}
	want = "TIMEOUT=32 (above 31) MIN_RNR_TIMER=99 (above 31)"
	if got := a.Describe(MaskTimeout | MaskMinRNRTimer); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func ExampleCheck() {
	fmt.Println(Check(UD, Init, RTR, MaskState|MaskAV))
	// Output: UD INIT→RTR: not allowed here AV (address vector: the path to the peer (on RoCE: its GID))
}
