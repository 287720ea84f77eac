// The bits of a queue pair's mask, and the fields of struct ibv_qp_attr that they select.

package action

import "github.com/rawverbs/rawverbs/qpstate"

// AllBits are the bits that libibverbs defines.
var AllBits = func() (all qpstate.Mask) {
	for bit := range 32 {
		if b := qpstate.Mask(1) << bit; b.About() != "" {
			all |= b
		}
	}
	return all
}()

// Queried are the attributes that a query asks for: those that a queue pair of some type has.
const Queried = qpstate.MaskState | qpstate.MaskCurState | qpstate.MaskAccessFlags | qpstate.MaskPKeyIndex | qpstate.MaskPort |
	qpstate.MaskQKey | qpstate.MaskAV | qpstate.MaskPathMTU | qpstate.MaskTimeout | qpstate.MaskRetryCnt | qpstate.MaskRNRRetry |
	qpstate.MaskRQPSN | qpstate.MaskMaxRdAtomic | qpstate.MaskMinRNRTimer | qpstate.MaskSQPSN | qpstate.MaskMaxDestRdAtomic |
	qpstate.MaskDestQPN | qpstate.MaskCap

// Fields are the fields of struct ibv_qp_attr by their bits.
var Fields = map[qpstate.Mask]string{
	qpstate.MaskState: "qp_state", qpstate.MaskCurState: "cur_qp_state", qpstate.MaskEnSQDAsyncNotify: "en_sqd_async_notify",
	qpstate.MaskAccessFlags: "qp_access_flags", qpstate.MaskPKeyIndex: "pkey_index", qpstate.MaskPort: "port_num", qpstate.MaskQKey: "qkey",
	qpstate.MaskAV: "ah_attr", qpstate.MaskPathMTU: "path_mtu", qpstate.MaskTimeout: "timeout", qpstate.MaskRetryCnt: "retry_cnt",
	qpstate.MaskRNRRetry: "rnr_retry", qpstate.MaskRQPSN: "rq_psn", qpstate.MaskMaxRdAtomic: "max_rd_atomic", qpstate.MaskAltPath: "alt_ah_attr",
	qpstate.MaskMinRNRTimer: "min_rnr_timer", qpstate.MaskSQPSN: "sq_psn", qpstate.MaskMaxDestRdAtomic: "max_dest_rd_atomic",
	qpstate.MaskPathMigState: "path_mig_state", qpstate.MaskCap: "cap", qpstate.MaskDestQPN: "dest_qp_num", qpstate.MaskRateLimit: "rate_limit",
}
