// Messages that are lost because their receiver had posted no receive. The sender of UD and UC does not
// learn of them.

package verbs

import (
	"fmt"
	"syscall"
)

// missedNames are the drivers' names of the counter: softroce's, mlx5's and mlx4's.
var missedNames = []string{"drop_no_receive", "out_of_buffer", "rq_num_udsdprd"}

// MissedReceives returns how many messages the device has dropped, for any queue pair of any program,
// because no receive was posted. It reads the counters of [Device.QueryCounters]. mlx5 also counts
// messages of RC, which their senders repeat. A soft device counts since it was opened.
// errors.ErrUnsupported if the device does not count them, as rdma_rxe.
//
// Reads: drop_no_receive, out_of_buffer or rq_num_udsdprd, whichever the port has.
func (d *Device) MissedReceives(port uint8) (uint64, error) {
	all, err := d.QueryCounters(port)
	if err != nil {
		return 0, err
	}
	for _, name := range missedNames {
		if n, ok := all[name]; ok {
			return n, nil
		}
	}
	return 0, cannotCount(d.device, fmt.Sprintf("port %d", port), "numbers in the messages: this device counts no missing receives")
}

// MissedReceives returns how many messages of UD or UC the device has dropped since CreateQP because
// the queue pair had no receive posted. errors.ErrUnsupported if the device does not count for each
// queue pair, as those of libibverbs: see [Device.MissedReceives]. net.ErrClosed after Close.
func (qp *QP) MissedReceives() (n uint64, err error) {
	p, err := optional[ProviderMissedReceives](qp.p)
	if err != nil {
		return 0, cannotCount(qp.device, qp.name(), "Device.MissedReceives, which counts for all queue pairs")
	}
	err = qp.call("counters", qp.name(), func() error {
		n = p.MissedReceives()
		return nil
	})
	return n, err
}

func cannotCount(device, detail, hint string) error {
	return &Error{Op: "counters", Device: device, Detail: detail, Errno: syscall.EOPNOTSUPP, Hint: hint}
}
