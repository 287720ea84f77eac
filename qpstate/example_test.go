package qpstate_test

import (
	"fmt"
	"syscall"

	"github.com/rawverbs/rawverbs/qpstate"
)

// kernel is a queue pair that refuses as the kernel does: with EINVAL and no reason.
type kernel struct{ state qpstate.State }

func (k *kernel) Modify(attr *qpstate.Attr, mask qpstate.Mask) error {
	if qpstate.Check(qpstate.UC, k.state, attr.State, mask) != nil {
		return syscall.EINVAL
	}
	k.state = attr.State
	return nil
}

// A Machine fills in the masks, reports each move and explains a refusal. It drives a
// *verbs.QP in the same way.
func ExampleMachine() {
	m := qpstate.NewMachine(qpstate.UC, &kernel{}, func(s qpstate.Step) { fmt.Println(s.Name(), s.Mask.Name()) })
	fmt.Println(m.ToInit(qpstate.Attr{PortNum: 1}))
	fmt.Println(m.ToSQD())
	fmt.Println(m.State().Name())
	// Output:
	// RESET→INIT STATE|ACCESS_FLAGS|PKEY_INDEX|PORT
	// <nil>
	// INIT→SQD STATE
	// UC INIT→SQD: no such transition; from INIT a queue pair can go to RESET, INIT, RTR, ERR
	// INIT
}
