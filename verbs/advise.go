// Advice about regions with on-demand paging: which memory will be used soon.

package verbs

import (
	"fmt"
	"syscall"
)

// MRAdvice is a kind of advice about memory (enum ibv_advise_mr_advice).
type MRAdvice uint32

// The kinds of advice.
const (
	AdvisePrefetch        MRAdvice = iota // the memory will be read: load its pages
	AdvisePrefetchWrite                   // the memory will be written: load its pages
	AdvisePrefetchNoFault                 // prepare only the pages that are in memory now
)

// String returns the C name: "IBV_ADVISE_MR_ADVICE_PREFETCH".
func (a MRAdvice) String() string {
	return cName("IBV_ADVISE_MR_ADVICE_", "ibv_advise_mr_advice", uint32(a), "PREFETCH", "PREFETCH_WRITE", "PREFETCH_NO_FAULT")
}

// MRAdviceFlags modify a call of [PD.AdviseMR] (IBV_ADVISE_MR_FLAG_*). 0 means no flags.
type MRAdviceFlags uint32

// AdviseFlush makes [PD.AdviseMR] return only after the device has followed the advice. Soft
// devices leave the advice to the system and always return at once.
const AdviseFlush MRAdviceFlags = 1 << 0

// String lists the flags by their C names. No flags give "0".
func (f MRAdviceFlags) String() string { return cFlags("IBV_ADVISE_MR_FLAG_", uint32(f), "FLUSH") }

// AdviseMR advises the device about memory of this domain's regions that were registered with
// [AccessOnDemand]. Without [AdviseFlush] it returns at once. EINVAL for an empty list or unknown
// flags; EFAULT or ENOENT for memory outside a region; errors.ErrUnsupported if the device does
// not take this advice.
//
// Implements: int ibv_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sge)
func (pd *PD) AdviseMR(advice MRAdvice, flags MRAdviceFlags, sgl []SGE) error {
	return callOptional(&pd.handle, pd.p, "ibv_advise_mr", fmt.Sprintf("%v, %d elements", advice, len(sgl)), func(p ProviderAdvise) error {
		if len(sgl) == 0 {
			return syscall.EINVAL
		}
		return p.AdviseMR(advice, flags, sgl)
	})
}
