// What devices are known to do otherwise, each with the reason. A line here is a
// claim that the run checks: the case must fail.

package verbstest

import (
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// Quirks are those of the kind of device that a name is of.
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
	case dev.Info().Provider == "softroce":
		return softQuirks
	case attr.VendorID == verbs.VendorRXE:
		return rxeQuirks()
	}
	return nil
}

const noBuilder = "has one way to post, and that is Go's"

// softQuirks: the software device is ours, so what it does wrong is to be
// corrected and not to be listed. These are what it does not have.
var softQuirks = map[string]string{
	"builder/a message each way":                           noBuilder,
	"builder/a message each way on UC":                     noBuilder,
	"builder/a send that was refused is not sent later":    noBuilder,
	"builder/a datagram each way":                          noBuilder,
	"builder/one chain of every operation":                 noBuilder,
	"builder/a window is bound, opens, and is invalidated": noBuilder,
	"builder/several elements":                             noBuilder, "builder/several elements inline": noBuilder, "builder/a bind on UC": noBuilder,
	"builder/a bad send within a chain":                             noBuilder,
	"builder/more than the queue holds: the place where it is full": noBuilder,
	"builder/full chains, 50 times":                                 noBuilder,
	"device/the raw clock runs":                                     "has no clock of its own",
	"qp/whether data comes in order":                                "makes no promise: it copies as the CPU likes",
	"qp/options of enhanced connection establishment":               "is as the standard has it, and nothing beyond",
}

// rxeQuirks are those of rdma_rxe in Linux 6.12 with the libibverbs of
// rdma-core 44.
func rxeQuirks() map[string]string {
	const (
		unchecked   = "takes the value unchecked"
		flushes     = "goes to ERR before the failing request has completed, so that it says WR_FLUSH_ERR like the rest"
		noSQE       = "has no SQE: a failing send takes UC and UD to ERR"
		recvStatus  = "completes any receive that cannot be filled with LOC_QP_OP_ERR"
		tooSmall    = recvStatus + ", and tells the sender REM_OP_ERR"
		noEvent     = "has no such event"
		noModerate  = "has no moderation"
		noClock     = "has no completion timestamps"
		noBounds    = "checks the region's bounds, and not the window's"
		spoils      = "compares the window's key with that of the last bind posted, which a flushed bind does not give it"
		noFlush     = "its part of libibverbs has no FLUSH"
		noRereg     = "its part of libibverbs cannot change a region"
		stallsInSQD = "does not try again in SQD: what the peer was not ready for never completes, and the queue never drains"
	)
	quirks := map[string]string{
		"mr/a closed region cannot be sent from":                                   flushes,
		"local error/SEND with a wrong lkey":                                       flushes,
		"local error/WRITE with a wrong lkey":                                      flushes,
		"local error/SEND from beyond the region":                                  flushes,
		"local error/SEND from before the region":                                  flushes,
		"local error/SEND from the end of all addresses":                           flushes,
		"local error/SEND from a region of another domain":                         flushes,
		"flush/a local error: those before it succeed, those after it are flushed": flushes,
		"local error/UC: the send queue stops, the receives go on":                 noSQE,
		"local error/UD: the send queue stops, the receives go on":                 noSQE,
		"local error/READ, and MAX_QP_RD_ATOMIC is 0":                              "lets the READ wait for ever",

		"error/a receive too small":                               tooSmall,
		"error/a receive too small for a message of many packets": tooSmall,
		"error/a receive without memory":                          tooSmall,
		"error/a receive: a wrong lkey":                           recvStatus,
		"error/a receive: beyond its region":                      recvStatus,
		"error/a receive: a region of another domain":             recvStatus,
		"error/a receive: a region without LOCAL_WRITE":           recvStatus,
		"datagram/QKEY with the high bit: the sender's own":       "sends the QKEY as it is given",

		"device/the raw clock runs":                                            "has no clock that can be read",
		"qp/options of enhanced connection establishment":                      "has none",
		"builder/several elements":                                             "its part of libibverbs takes the first element's length for that of each",
		"builder/several elements inline":                                      "its part of libibverbs does not move on in the list",
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
		"mr/dmabuf: another driver's memory":                                   "registers its own process's memory alone",
		"mr/advice":                                                            "has no paging on demand in this kernel",

		"mw/type 1: one byte before it":                                        noBounds,
		"mw/type 2: one byte before it":                                        noBounds,
		"mw/type 1: one byte beyond it":                                        noBounds,
		"mw/type 2: one byte beyond it":                                        noBounds,
		"mw/type 1: its key is no lkey":                                        flushes,
		"mw/type 2: its key is no lkey":                                        flushes,
		"mw/type 1: a region without MW_BIND is refused":                       flushes,
		"mw/type 2: a region without MW_BIND is refused":                       flushes,
		"mw/type 1: a bind that another queue pair's overtakes":                flushes,
		"mw/type 1: a bind that was flushed leaves a window that can be bound": spoils,
		"mw/type 2: a bind that was flushed leaves a window that can be bound": spoils,
		"mw/type 1: writing to what is for reading is refused":                 flushes,
		"mw/type 2: writing to what is for reading is refused":                 flushes,
		"mw/type 1: before the region is refused":                              flushes,
		"mw/type 2: before the region is refused":                              flushes,
		"mw/type 1: beyond the region is refused":                              flushes,
		"mw/type 2: beyond the region is refused":                              flushes,
		"mw/type 2: a region of another domain is refused":                     flushes,
		"mw/type 2: a window of another domain is refused":                     flushes,
		"mw/type 2: 0 bytes is refused":                                        flushes,
		"mw/type 2: bound while it is bound is refused":                        flushes,
		"mw/type 1: its key cannot be invalidated":                             flushes,
		"mw/LOCAL_INV of a region's key is refused":                            flushes,
		"mw/type 1: a local right is refused":                                  unchecked,
		"mw/type 2: a local right is refused":                                  unchecked,
		"mw/type 2: the receive tells which key was invalidated":               "tells of it by the kernel's flag, which to programs is IP_CSUM_OK",
		"mw/SEND with invalidate of a region's key is refused":                 "acknowledges the SEND before it looks at the key",

		"value/PKEY_INDEX 999 is refused":          unchecked,
		"value/PATH_MTU 0 is refused":              unchecked,
		"value/MIN_RNR_TIMER 32 is refused":        unchecked,
		"value/MAX_DEST_RD_ATOMIC 255 is refused":  unchecked,
		"value/RETRY_CNT 8 is refused":             unchecked,
		"value/RNR_RETRY 8 is refused":             unchecked,
		"value/a wrong CUR_STATE is refused":       "believes CUR_STATE, and judges the move from there",
		"qp/query in RTS: MAX_DEST_RD_ATOMIC of 3": "rounds it up to a power of two",

		"transition/UC SQD→SQD": "the kernel's ib_uverbs adds PORT to AV in SQD, and the row of UC does not have PORT",

		"events of a cq/armed for solicited, an error tells": "tells only of completions whose message was solicited",

		"cq/moderation: one event for 8 completions":            noModerate,
		"cq/moderation: the period ends the wait for more":      noModerate,
		"cq/moderation: none again":                             noModerate,
		"cq/moderation: waiters are woken":                      noModerate,
		"cq ex/timestamps do not run backwards":                 noClock,
		"cq ex/wall clock times are now":                        noClock,
		"srq/number":                                            "its provider in libibverbs does not tell the number",
		"srq/of another domain: its own domain's memory counts": "checks receives against the queue pair's domain",
		"srq/resize and limit in one":                           "judges the limit by the size before",

		"drain/what is posted in SQD waits for RTS":        "does not start the send queue at SQD→RTS: the next post does",
		"drain/SQ_DRAINED tells after the last completion": stallsInSQD,
		"drain/SQ_DRAINING while a send is under way":      stallsInSQD,
		"drain/RESET while a send is under way":            "refuses every move but that to ERR while the queue drains",

		"event/COMM_EST: a message comes in RTR":                      noEvent,
		"event/QP_ACCESS_ERR: the peer gave a wrong rkey":             noEvent,
		"event/QP_REQ_ERR: the peer asked for what this side refuses": noEvent,
		"event/QP_FATAL: the CQ of a working queue pair overran":      "tells of the CQ alone",
	}
	for _, c := range transitionCases() {
		if strings.Contains(c.Name, " SQE→") {
			quirks[c.ID()] = noSQE
		}
	}
	return quirks
}
