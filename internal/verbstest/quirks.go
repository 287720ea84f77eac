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
	case attr.VendorID == rxeVendor:
		return rxeQuirks()
	}
	return nil
}

// rxeVendor is what rdma_rxe gives as its vendor.
const rxeVendor = 0xffffff

// softQuirks: the software device is ours, so what it does wrong is to be
// corrected and not to be listed.
var softQuirks = map[string]string{}

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
		"datagram/a receive too small for it":                     "drops the datagram and keeps silent",
		"datagram/QKEY with the high bit: the sender's own":       "sends the QKEY as it is given",

		"value/PKEY_INDEX 999 is refused":          unchecked,
		"value/PATH_MTU 0 is refused":              unchecked,
		"value/MIN_RNR_TIMER 32 is refused":        unchecked,
		"value/MAX_DEST_RD_ATOMIC 255 is refused":  unchecked,
		"value/RETRY_CNT 8 is refused":             unchecked,
		"value/RNR_RETRY 8 is refused":             unchecked,
		"value/a wrong CUR_STATE is refused":       "believes CUR_STATE, and judges the move from there",
		"qp/query in RTS: MAX_DEST_RD_ATOMIC of 3": "rounds it up to a power of two",

		"transition/UC SQD→SQD": "the kernel's ib_uverbs adds PORT to AV in SQD, and the row of UC does not have PORT",

		"post/a send that was refused is not sent later": "libibverbs puts the request into the queue before the kernel refuses to serve it, and leaves it there",

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
