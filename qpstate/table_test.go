package qpstate

import (
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

// kernelTable is the kernel's qp_state_table as numbers. It is independent of the
// package's own table, so a mistake in either table fails the test.
var kernelTable = []struct {
	from, to           State
	rcReq, ucReq, udRq Mask
	rcOpt, ucOpt, udOp Mask
}{
	{Reset, Init, 0x38, 0x38, 0x70, 0, 0, 0},
	{Init, Init, 0, 0, 0, 0x38, 0x38, 0x70},
	{Init, RTR, 0x129180, 0x101180, 0, 0x4018, 0x4018, 0x50},
	{RTR, RTS, 0x12e00, 0x10000, 0x10000, 0x4c00a, 0x4400a, 0x42},
	{RTS, RTS, 0, 0, 0, 0x4c00a, 0x4400a, 0x42},
	{RTS, SQD, 0, 0, 0, 0x4, 0x4, 0x4},
	{SQD, RTS, 0, 0, 0, 0x4c00a, 0x4400a, 0x42},
	{SQD, SQD, 0, 0, 0, 0x6eeb8, 0x44098, 0x50},
	{SQE, RTS, 0, 0, 0, 0, 0xa, 0x42},
}

// allowed looks a move up in kernelTable.
func allowed(typ Type, from, to State) (required, optional Mask, ok bool) {
	if to == Reset || to == Error && from != Reset {
		return 0, 0, true
	}
	for _, k := range kernelTable {
		if k.from == from && k.to == to {
			switch typ {
			case RC:
				return k.rcReq, k.rcOpt, true
			case UC:
				return k.ucReq, k.ucOpt, true
			case UD:
				return k.udRq, k.udOp, true
			}
		}
	}
	return 0, 0, false
}

// TestCheckEveryMaskBit checks every move of every type with the required mask, with
// each required bit removed and with each other bit added.
func TestCheckEveryMaskBit(t *testing.T) {
	for _, typ := range Types() {
		for _, from := range States() {
			for _, to := range States() {
				required, optional, legal := allowed(typ, from, to)
				move := typ.Name() + " " + from.Name() + "→" + to.Name()

				err := Check(typ, from, to, required|MaskState)
				if (err == nil) != legal {
					t.Fatalf("%s: legal is %v, Check says %v", move, legal, err)
				}
				if !legal {
					continue
				}
				for bit := Mask(2); bit != 0; bit <<= 1 {
					err := Check(typ, from, to, (required|MaskState)^bit)
					var te *TransitionError
					switch {
					case required&bit != 0:
						if !errors.As(err, &te) || te.Missing != bit || te.Illegal != 0 {
							t.Errorf("%s without %s: %v", move, bit, err)
						}
					case optional&bit != 0:
						if err != nil {
							t.Errorf("%s with optional %s: %v", move, bit, err)
						}
					default:
						if !errors.As(err, &te) || te.Illegal != bit || te.Missing != 0 {
							t.Errorf("%s with %s: %v", move, bit, err)
						}
					}
				}
			}
		}
	}
}

func TestCheckOutsideTheTable(t *testing.T) {
	for _, c := range []struct {
		typ      Type
		from, to State
	}{{0, Reset, Init}, {99, Reset, Init}, {RC, Unknown, Reset}, {RC, 200, Error}, {RC, Init, Unknown}, {RC, Init, 200}} {
		if err := Check(c.typ, c.from, c.to, MaskState); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v %v→%v: %v", c.typ, c.from, c.to, err)
		}
	}
}

func TestTransitionErrorText(t *testing.T) {
	for _, c := range []struct {
		typ      Type
		from, to State
		mask     Mask
		want     []string
	}{
		{RC, Init, RTR, 0x129180 &^ MaskAV, []string{"RC INIT→RTR", "missing AV", "GID"}},
		{RC, Init, RTR, 0x129180 | MaskPort, []string{"not allowed here PORT"}},
		{UD, Reset, Init, 0x38, []string{"missing QKEY", "not allowed here ACCESS_FLAGS"}},
		{RC, Init, RTS, 0, []string{"no such transition", "from INIT", "INIT, RTR, ERR"}},
		{RC, Reset, Error, 0, []string{"no such transition", "RESET, INIT"}},
		{RC, Reset, Init, 0x38 | 1<<30, []string{"0x40000000"}},
		{77, Reset, Init, 0, []string{"IBV_QPT_77"}},
	} {
		err := errors.WithMessage(Check(c.typ, c.from, c.to, c.mask), "wrapped")
		for _, want := range c.want {
			if !strings.Contains(err.Error(), strings.TrimPrefix(want, "IBV_QPT_")) {
				t.Errorf("%v %v→%v %v: %q lacks %q", c.typ, c.from, c.to, c.mask, err, want)
			}
		}
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v is not EINVAL", err)
		}
	}
}

func TestExplainTouchesOnlyEINVAL(t *testing.T) {
	if err := Explain(nil, RC, Init, RTS, 0); err != nil {
		t.Errorf("success explained as %v", err)
	}
	if err := Explain(syscall.ENODEV, RC, Init, RTS, 0); err != syscall.ENODEV {
		t.Errorf("ENODEV became %v", err)
	}
	if err := Explain(syscall.EINVAL, RC, Reset, Init, 0x39); err != syscall.EINVAL {
		t.Errorf("a legal move's EINVAL became %v", err)
	}
	var te *TransitionError
	if err := Explain(syscall.EINVAL, RC, Reset, Init, 1); !errors.As(err, &te) || te.Missing != 0x38 {
		t.Errorf("an illegal move's EINVAL became %v", err)
	}
}
