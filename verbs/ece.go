// What a queue pair agrees upon with its peer beyond the standard, and what it
// promises about the order of bytes.

package verbs

import "fmt"

// ECE is the options of enhanced connection establishment (struct ibv_ece), in
// whose bits makers of devices encode what they can do beyond the standard. Each
// end queries its own and sends it to the other; the other sets it and answers with
// what is left of it. The zero value is none. It is a plain value.
type ECE struct {
	VendorID uint32 // an IEEE OUI
	Options  uint32 // the maker's own
}

// QueryECE returns the queue pair's options: what it offers in RESET, what was agreed
// upon later. errors.ErrUnsupported if the device has none, net.ErrClosed after Close.
//
// Implements: int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (qp *QP) QueryECE() (e ECE, err error) {
	err = qp.call("ibv_query_ece", qp.name(), func() error {
		p, err := optional[ProviderECE](qp.p)
		if err != nil {
			return err
		}
		e, err = p.QueryECE()
		return err
	})
	return e, err
}

// SetECE sets the options that the peer sent, before RTR. errors.ErrUnsupported if
// the device has none, or they are another maker's; net.ErrClosed after Close.
//
// Implements: int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (qp *QP) SetECE(e ECE) error {
	return qp.call("ibv_set_ece", fmt.Sprintf("%s, vendor %#x, options %#x", qp.name(), e.VendorID, e.Options), func() error {
		p, err := optional[ProviderECE](qp.p)
		if err != nil {
			return err
		}
		return p.SetECE(e)
	})
}

// DataInOrder says whether the data of an operation is written to memory from its
// first byte to its last, so that a program may watch the last one instead of the
// completion. errors.ErrUnsupported if it cannot be told: then do not. It is asked of a
// whole message. net.ErrClosed after Close.
//
// Implements: int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
func (qp *QP) DataInOrder(op Opcode) (ordered bool, err error) {
	err = qp.call("ibv_query_qp_data_in_order", fmt.Sprintf("%s, %v", qp.name(), op), func() error {
		p, err := optional[ProviderDataOrder](qp.p)
		if err != nil {
			return err
		}
		ordered, err = p.DataInOrder(op)
		return err
	})
	return ordered, err
}

func (qp *QP) name() string { return fmt.Sprintf("QP %#06x", qp.QPN()) }
