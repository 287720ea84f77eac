// Vendor options that two queue pairs negotiate, and the order in which data is written.

package verbs

import "fmt"

// ECE holds the options of enhanced connection establishment (struct ibv_ece). Makers of devices
// use its bits for capabilities beyond the standard. One end queries its options and sends them to
// the other end. The other end sets them and answers with the options that remain. The zero value
// has no options. ECE is a plain value.
type ECE struct {
	VendorID uint32 // an IEEE OUI
	Options  uint32 // defined by the maker
}

// QueryECE returns the queue pair's options: in RESET the options that it offers, later the
// negotiated ones. errors.ErrUnsupported if the device has no ECE, net.ErrClosed after Close.
//
// Implements: int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (qp *QP) QueryECE() (e ECE, err error) {
	return queryOptional(&qp.handle, qp.p, "ibv_query_ece", qp.name(), ProviderECE.QueryECE)
}

// SetECE sets the options that the peer sent. Call it before the move to RTR.
// errors.ErrUnsupported if the device has no ECE, or if the options are another maker's;
// net.ErrClosed after Close.
//
// Implements: int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
func (qp *QP) SetECE(e ECE) error {
	detail := fmt.Sprintf("%s, vendor %#x, options %#x", qp.name(), e.VendorID, e.Options)
	return callOptional(&qp.handle, qp.p, "ibv_set_ece", detail, func(p ProviderECE) error { return p.SetECE(e) })
}

// DataInOrder reports whether the device writes the data of an operation to memory from the first
// byte to the last. If it does, a program may watch the last byte of a message instead of waiting
// for the completion. errors.ErrUnsupported if the order is not known: then wait for the
// completion. The answer is for whole messages. net.ErrClosed after Close.
//
// Implements: int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
func (qp *QP) DataInOrder(op Opcode) (ordered bool, err error) {
	return queryOptional(&qp.handle, qp.p, "ibv_query_qp_data_in_order", fmt.Sprintf("%s, %v", qp.name(), op),
		func(p ProviderDataOrder) (bool, error) { return p.DataInOrder(op) })
}

func (qp *QP) name() string { return fmt.Sprintf("QP %#06x", qp.QPN()) }
