// How devices are known to differ, with reasons. The run checks each line: the case must fail.

package verbstest

import (
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// Quirks returns the quirks of a device, by its kind.
func Quirks(t *testing.T, device string) map[string]string {
	dev, err := verbs.Open(device)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	attr, err := dev.Query()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case dev.Info().InProcess:
		return softQuirks
	case attr.VendorID == verbs.VendorRXE:
		return rxeQuirks()
	}
	return nil
}

const noBuilder = "has no ibv_wr_* calls"

// softQuirks lists only features that the software device does not have. Its bugs are fixed,
// not listed.
var softQuirks = map[string]string{
	"builder/a message each way":                noBuilder,
	"builder/a message each way on UC":          noBuilder,
	"builder/a refused send is never sent":      noBuilder,
	"builder/a datagram each way":               noBuilder,
	"builder/one chain of every operation":      noBuilder,
	"builder/bind, use and invalidate a window": noBuilder,
	"builder/several elements":                  noBuilder, "builder/several elements inline": noBuilder, "builder/a bind on UC": noBuilder,
	"builder/a bad send within a chain":                noBuilder,
	"builder/a chain longer than the queue is refused": noBuilder,
	"builder/full chains, 50 times":                    noBuilder,
	"qp/whether data arrives in order":                 "does not guarantee an order: the CPU copies the data",
	"qp/options of enhanced connection establishment":  "has no ECE options",
}

// rxeQuirks are the quirks of rdma_rxe in Linux 6.12 with libibverbs of rdma-core 44.
func rxeQuirks() map[string]string {
	const (
		unchecked   = "does not check the value"
		flushes     = "goes to ERR before the failed request completes, which therefore reports WR_FLUSH_ERR"
		noSQE       = "has no SQE: a failing send takes UC and UD to ERR"
		recvStatus  = "completes any receive that cannot be filled with LOC_QP_OP_ERR"
		tooSmall    = recvStatus + ", and the sender gets REM_OP_ERR"
		noEvent     = "has no such event"
		noModerate  = "has no moderation"
		noClock     = "has no completion timestamps"
		noBounds    = "checks the region's bounds instead of the window's"
		spoils      = "compares the window's key with that of the last posted bind, even if that bind was flushed"
		noFlush     = "its provider in libibverbs has no FLUSH"
		noRereg     = "its provider in libibverbs has no rereg"
		stallsInSQD = "does not retry in SQD: after an RNR NAK a send never completes, and the queue never drains"
	)
	quirks := map[string]string{
		"mr/a closed region cannot be sent from":                                   flushes,
		"local error/SEND with a wrong lkey":                                       flushes,
		"local error/WRITE with a wrong lkey":                                      flushes,
		"local error/SEND from beyond the region":                                  flushes,
		"local error/SEND from before the region":                                  flushes,
		"local error/SEND from the end of the address space":                       flushes,
		"local error/SEND from a region of another domain":                         flushes,
		"flush/a local error: sends before it succeed, sends after it are flushed": flushes,
		"local error/UC: the send queue stops, the receives go on":                 noSQE,
		"local error/UD: the send queue stops, the receives go on":                 noSQE,
		"local error/READ with MAX_QP_RD_ATOMIC 0":                                 "lets the READ wait forever",

		"error/a receive too small":                               tooSmall,
		"error/a receive too small for a message of many packets": tooSmall,
		"error/a receive without memory":                          tooSmall,
		"error/a receive: a wrong lkey":                           recvStatus,
		"error/a receive: beyond its region":                      recvStatus,
		"error/a receive: a region of another domain":             recvStatus,
		"error/a receive: a region without LOCAL_WRITE":           recvStatus,
		"datagram/QKEY with the high bit: the sender's own":       "sends the QKEY unchanged",
		"datagram/without a receive it is counted":                "drops it without counting",

		"device/the raw clock runs":                                            "has no clock that can be read",
		"qp/options of enhanced connection establishment":                      "has no ECE options",
		"builder/several elements":                                             "its provider in libibverbs uses the length of the first element for all",
		"builder/several elements inline":                                      "its provider in libibverbs does not advance in the list",
		"mr/ZERO_BASED":                                                        "does not know the flag",
		"post/inline from a ZERO_BASED region":                                 "does not know the flag",
		"flush request/a range, and the whole region":                          noFlush,
		"flush request/refused: no type":                                       noFlush,
		"flush request/refused by the peer: a queue pair without FLUSH_GLOBAL": noFlush,
		"flush request/refused by the peer: a region without FLUSH_GLOBAL":     noFlush,
		"flush request/refused by the peer: beyond the region's end":           noFlush,
		"flush request/refused by the peer: FLUSH_PERSISTENT of memory":        noFlush,
		"mr/rereg: other rights":                                               noRereg,
		"mr/rereg: other memory":                                               noRereg,
		"mr/rereg: another domain":                                             noRereg,
		"mr/dmabuf: another driver's memory":                                   "supports only memory of the process",
		"mr/a null region reads as zeros and keeps nothing":                    "has no null regions",
		"mr/advice": "has no paging on demand in this kernel",

		"mw/type 1: one byte before the window":                        noBounds,
		"mw/type 2: one byte before the window":                        noBounds,
		"mw/type 1: one byte beyond the window":                        noBounds,
		"mw/type 2: one byte beyond the window":                        noBounds,
		"mw/type 1: its key is not an lkey":                            flushes,
		"mw/type 2: its key is not an lkey":                            flushes,
		"mw/type 1: a region without MW_BIND is refused":               flushes,
		"mw/type 2: a region without MW_BIND is refused":               flushes,
		"mw/type 1: a bind that overtakes an earlier one fails":        flushes,
		"mw/type 1: after a flushed bind the window can be bound":      spoils,
		"mw/type 2: after a flushed bind the window can be bound":      spoils,
		"mw/type 1: a right to write in a read-only region is refused": flushes,
		"mw/type 2: a right to write in a read-only region is refused": flushes,
		"mw/type 1: before the region is refused":                      flushes,
		"mw/type 2: before the region is refused":                      flushes,
		"mw/type 1: beyond the region is refused":                      flushes,
		"mw/type 2: beyond the region is refused":                      flushes,
		"mw/type 2: a region of another domain is refused":             flushes,
		"mw/type 2: a window of another domain is refused":             flushes,
		"mw/type 2: 0 bytes is refused":                                flushes,
		"mw/type 2: a bind of a bound window is refused":               flushes,
		"mw/type 1: its key cannot be invalidated":                     flushes,
		"mw/LOCAL_INV of a region's key is refused":                    flushes,
		"mw/type 1: a local right is refused":                          unchecked,
		"mw/type 2: a local right is refused":                          unchecked,
		"mw/type 2: the receive's completion has the invalidated key":  "sets the kernel's flag, which means IP_CSUM_OK to programs",
		"mw/SEND with invalidate of a region's key is refused":         "acknowledges the SEND before it checks the key",

		"value/PKEY_INDEX 999 is refused":          unchecked,
		"value/PATH_MTU 0 is refused":              unchecked,
		"value/MIN_RNR_TIMER 32 is refused":        unchecked,
		"value/MAX_DEST_RD_ATOMIC 255 is refused":  unchecked,
		"value/RETRY_CNT 8 is refused":             unchecked,
		"value/RNR_RETRY 8 is refused":             unchecked,
		"value/a wrong CUR_STATE is refused":       "does not check CUR_STATE and uses it as the state",
		"qp/query in RTS: MAX_DEST_RD_ATOMIC of 3": "rounds it up to a power of two",

		"transition/UC SQD→SQD": "the kernel's ib_uverbs adds PORT to AV in SQD, and the row of UC does not have PORT",

		"events of a cq/armed for solicited: an error makes an event": "makes events only for solicited messages",

		"cq/moderation: one event for 8 completions":           noModerate,
		"cq/moderation: the period ends the wait for more":     noModerate,
		"cq/moderation: turned off":                            noModerate,
		"cq/moderation: waiters are woken":                     noModerate,
		"cq ex/timestamps do not run backwards":                noClock,
		"cq ex/wall clock times are current":                   noClock,
		"srq/number":                                           "its provider in libibverbs does not return the number",
		"srq/of another domain: receives use the SRQ's domain": "checks receives against the queue pair's domain",
		"srq/resize and limit in one Modify":                   "compares the limit with the old size",

		"drain/a send posted in SQD waits for RTS":    "does not start the send queue at SQD→RTS: the next post does",
		"drain/SQ_DRAINED after the last completion":  stallsInSQD,
		"drain/SQ_DRAINING while a send is in flight": stallsInSQD,
		"drain/RESET while a send is in flight":       "refuses all moves except to ERR while the queue drains",

		"event/COMM_EST: a message arrives in RTR":                  noEvent,
		"event/QP_ACCESS_ERR: the peer used a wrong rkey":           noEvent,
		"event/QP_REQ_ERR: the peer sent a request that is refused": noEvent,
		"event/QP_FATAL: the CQ of a working queue pair overran":    "reports only the CQ's event",
	}
	for _, c := range transitionCases() {
		if strings.Contains(c.Name, " SQE→") {
			quirks[c.ID()] = noSQE
		}
	}
	return quirks
}
