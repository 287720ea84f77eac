package verbs

import (
	stderrors "errors"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// countingDevice has counters.
type countingDevice struct {
	ProviderDevice
	counters map[string]uint64
}

func (d countingDevice) QueryCounters(uint8) (map[string]uint64, error) { return d.counters, nil }

func TestMissedReceivesOfADriver(t *testing.T) {
	d, _ := newPaperDevice()
	paper := d.p
	for _, name := range []string{"drop_no_receive", "out_of_buffer", "rq_num_udsdprd"} {
		d.p = countingDevice{paper, map[string]uint64{"rcvd_pkts": 9, name: 4}}
		if n, err := d.MissedReceives(1); n != 4 || err != nil {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	d.p = countingDevice{paper, map[string]uint64{"rcvd_pkts": 9}} // as rdma_rxe
	if _, err := d.MissedReceives(1); !errors.Is(err, stderrors.ErrUnsupported) || !strings.Contains(err.Error(), "try: numbers in the messages") {
		t.Errorf("a device that does not count them: %v", err)
	}
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: UD, SendCQ: cq, RecvCQ: cq}))
	if _, err := qp.MissedReceives(); !errors.Is(err, stderrors.ErrUnsupported) || !strings.Contains(err.Error(), "try: Device.MissedReceives") {
		t.Errorf("a queue pair of it: %v", err)
	}
	closeRoom(t, qp, cq, pd, d)
}
