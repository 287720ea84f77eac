package qpstate

import (
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

// tableQP is a queue pair that follows the table and refuses with a bare EINVAL, as
// the kernel does.
type tableQP struct {
	typ   Type
	state State
	mask  Mask // the mask of the last call
}

func (q *tableQP) Modify(attr *Attr, mask Mask) error {
	q.mask = mask
	if Check(q.typ, q.state, attr.State, mask) != nil {
		return syscall.EINVAL
	}
	q.state = attr.State
	return nil
}

func TestMachineDrivesEachTypeToRTSAndBack(t *testing.T) {
	for _, typ := range Types() {
		t.Run(typ.Name(), func(t *testing.T) {
			qp := &tableQP{typ: typ}
			var seen []string
			m := NewMachine(typ, qp, func(s Step) {
				if s.Err != nil || s.Mask != qp.mask {
					t.Errorf("step %v", s)
				}
				seen = append(seen, s.Name())
			})
			attr := Attr{PortNum: 1}
			for _, move := range []func() error{
				func() error { return m.ToInit(attr) },
				func() error { return m.ToInit(attr) },
				func() error { return m.ToRTR(attr) },
				func() error { return m.ToRTS(attr) },
				m.ToSQD,
				func() error { return m.ToRTS(attr) },
				m.ToError,
				m.ToReset,
			} {
				if err := move(); err != nil {
					t.Fatal(err)
				}
				if m.State() != qp.state {
					t.Fatalf("the machine is in %v, the queue pair in %v", m.State(), qp.state)
				}
			}
			want := []string{"RESET→INIT", "INIT→INIT", "INIT→RTR", "RTR→RTS", "RTS→SQD", "SQD→RTS", "RTS→ERR", "ERR→RESET"}
			if len(seen) != len(want) {
				t.Fatalf("saw %v, want %v", seen, want)
			}
			for i := range want {
				if seen[i] != want[i] {
					t.Errorf("step %d was %s, want %s", i, seen[i], want[i])
				}
			}
		})
	}
}

func TestMachineExplainsRefusal(t *testing.T) {
	qp := &tableQP{typ: RC}
	var last Step
	m := NewMachine(RC, qp, func(s Step) { last = s })
	var te *TransitionError

	if err := m.ToRTS(Attr{}); !errors.As(err, &te) || !te.Impossible {
		t.Errorf("RESET→RTS: %v", err)
	}
	if err := m.Move(Init, Attr{}, MaskCap); !errors.As(err, &te) || te.Illegal != MaskCap {
		t.Errorf("RESET→INIT with CAP: %v", err)
	}
	if last.Err == nil || m.State() != Reset {
		t.Errorf("after refusals the machine is in %v, last step %v", m.State(), last)
	}
	if err := m.ToError(); err == nil {
		t.Error("RESET→ERR was accepted")
	}
}

// refuser is a queue pair that refuses for a reason outside the table.
type refuser struct{ err error }

func (r refuser) Modify(*Attr, Mask) error { return r.err }

func TestMachineKeepsOtherErrors(t *testing.T) {
	for _, errno := range []error{syscall.ETIMEDOUT, syscall.EINVAL} {
		m := NewMachine(RC, refuser{errno}, nil)
		if err := m.ToInit(Attr{}); err != errno {
			t.Errorf("%v became %v", errno, err)
		}
	}
}

func TestMachineObserved(t *testing.T) {
	qp := &tableQP{typ: UD, state: SQE}
	m := NewMachine(UD, qp, nil)
	m.Observed(SQE)
	if err := m.ToRTS(Attr{}); err != nil || m.State() != RTS {
		t.Errorf("SQE→RTS: %v, now %v", err, m.State())
	}
}
