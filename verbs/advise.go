// Advice about regions with on-demand paging: what will be used soon.

package verbs

import (
	"fmt"
	"syscall"
)

// MRAdvice is what is said about memory (enum ibv_advise_mr_advice).
type MRAdvice uint32

// The kinds of advice.
const (
	AdvisePrefetch        MRAdvice = iota // it will be read: have its pages ready
	AdvisePrefetchWrite                   // it will be written
	AdvisePrefetchNoFault                 // have ready those of its pages that are in memory now
)

// String is the C name: "IBV_ADVISE_MR_ADVICE_PREFETCH".
func (a MRAdvice) String() string {
	return cName("IBV_ADVISE_MR_ADVICE_", "ibv_advise_mr_advice", uint32(a), "PREFETCH", "PREFETCH_WRITE", "PREFETCH_NO_FAULT")
}

// MRAdviceFlags modify an advice (IBV_ADVISE_MR_FLAG_*); 0 is none.
type MRAdviceFlags uint32

// AdviseFlush has [PD.AdviseMR] return only when the advice has been followed. Soft
// devices leave that to the system, and return at once all the same.
const AdviseFlush MRAdviceFlags = 1 << 0

// String lists the flags by their C names, "0" for none.
func (f MRAdviceFlags) String() string { return cFlags("IBV_ADVISE_MR_FLAG_", uint32(f), "FLUSH") }

// AdviseMR advises the device about memory of regions of this domain that were
// registered with [AccessOnDemand]. Without [AdviseFlush] it returns at once. EINVAL for
// no elements or flags that are none; EFAULT or ENOENT for memory that is no region's;
// errors.ErrUnsupported if the device does not take advice, or not this one.
//
// Implements: int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
func (pd *PD) AdviseMR(advice MRAdvice, flags MRAdviceFlags, sgl []SGE) error {
	return pd.call("ibv_advise_mr", fmt.Sprintf("%v, %d elements", advice, len(sgl)), func() error {
		p, err := optional[ProviderAdvise](pd.p)
		if err != nil {
			return err
		}
		if len(sgl) == 0 {
			return syscall.EINVAL
		}
		return p.AdviseMR(advice, flags, sgl)
	})
}
