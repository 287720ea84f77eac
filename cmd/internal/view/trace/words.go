// What a story says of queue pairs in words: one row for each state, each bit of a
// transition's mask, and each kind of object.

package trace

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
)

// stateWords say what a queue pair can do in each state.
var stateWords = map[string]string{
	"RESET": "unused",
	"INIT":  "receives can be posted",
	"RTR":   "ready to receive",
	"RTS":   "ready to send",
	"SQD":   "finishes the sends that have begun",
	"SQE":   "a send has failed; receives still work",
	"ERR":   "outstanding work requests are flushed",
}

// bitWords say what the value of each mask bit means, in the order in which a story
// lists them.
var bitWords = []struct {
	bit   string
	words string // %s is the value
	value func(string) string
}{
	{"CUR_STATE", "expected state %s", asIs},
	{"PORT", "port %s", asIs},
	{"PKEY_INDEX", "P_Key index %s", asIs},
	{"QKEY", "Q_Key %s", asIs},
	{"ACCESS_FLAGS", "%s", accessWords},
	{"DEST_QPN", "from queue pair %s", asIs},
	{"AV", "at %s", addressWords},
	{"ALT_PATH", "alternate path to %s", addressWords},
	{"PATH_MIG_STATE", "path migration %s", asIs},
	{"RQ_PSN", "first PSN %s", asIs},
	{"PATH_MTU", "path MTU %s", asIs},
	{"MAX_DEST_RD_ATOMIC", "READs and atomics served at once: %s", asIs},
	{"MIN_RNR_TIMER", "without a RECV the peer waits %s", meaning},
	{"SQ_PSN", "first PSN %s", asIs},
	{"TIMEOUT", "resends after %s without an ACK", meaning},
	{"RETRY_CNT", "up to %s times", asIs},
	{"RNR_RETRY", "and %s if the peer has no RECV", times},
	{"MAX_QP_RD_ATOMIC", "READs and atomics asked for at once: %s", asIs},
	{"RATE_LIMIT", "at most %s", asIs},
	{"EN_SQD_ASYNC_NOTIFY", "reports when it is drained: %s", asIs},
	{"CAP", "sizes %s", asIs},
}

// accessRights are the access flags that give the peer something.
var accessRights = []struct{ flag, right string }{
	{"REMOTE_WRITE", "WRITE"}, {"REMOTE_READ", "READ"}, {"REMOTE_ATOMIC", "use atomics"}, {"MW_BIND", "get memory windows"},
}

// objectKinds name what a verb makes, for a list that counts.
var objectKinds = map[string]string{
	"ibv_alloc_pd": "protection domain", "ibv_create_comp_channel": "completion channel", "ibv_create_cq": "completion queue",
	"ibv_create_srq": "shared receive queue", "ibv_create_qp": "queue pair", "ibv_create_ah": "address handle", "ibv_alloc_mw": "memory window",
}

func asIs(value string) string { return value }

// meaning takes "67.1ms" from "14 (67.108864ms)": what the code stands for.
func meaning(value string) string {
	_, inside, ok := strings.Cut(value, " (")
	if !ok {
		return value
	}
	inside = strings.TrimSuffix(inside, ")")
	if d, err := time.ParseDuration(inside); err == nil {
		inside = shortDuration(d)
	}
	return inside
}

// times reads a number of retries, "3" or "7 (forever)".
func times(value string) string {
	if strings.Contains(value, "(") {
		return "forever"
	}
	return value + " times"
}

// shortDuration is a duration to three digits.
func shortDuration(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// addressWords takes the peer's address from an address handle's attributes, "dgid
// ::1 sgid_index 1 …" or "dlid 0x3 …".
func addressWords(value string) string {
	words := strings.Fields(value)
	for i := 0; i+1 < len(words); i++ {
		switch words[i] {
		case "dgid":
			return "GID " + words[i+1]
		case "dlid":
			return "LID " + words[i+1]
		}
	}
	return value
}

// noAccess is for flags that give the peer nothing.
const noAccess = "no access for the peer"

// accessWords say what access flags let the peer do.
func accessWords(flags string) string {
	var rights []string
	for flag := range strings.SplitSeq(flags, "|") {
		for _, known := range accessRights {
			if flag == known.flag {
				rights = append(rights, known.right)
			}
		}
	}
	switch len(rights) {
	case 0:
		return noAccess
	case 1:
		return "the peer may " + rights[0]
	}
	last := len(rights) - 1
	return "the peer may " + strings.Join(rights[:last], ", ") + " and " + rights[last]
}

// transitionWords say what a transition to a state gave the queue pair. Bits whose
// values differ among several queue pairs are named alone.
func transitionWords(to string, values []slog.Attr, differ map[string]bool) string {
	given := map[string]string{}
	for _, a := range values {
		given[a.Key] = a.Value.String()
	}
	var words, own []string
	for _, row := range bitWords {
		value, ok := given[row.bit]
		switch delete(given, row.bit); {
		case !ok:
		case differ[row.bit]:
			own = append(own, row.bit)
		default:
			words = append(words, fmt.Sprintf(row.words, row.value(value)))
		}
	}
	for _, a := range values { // a bit without a row
		if value, ok := given[a.Key]; ok {
			words = append(words, a.Key+"="+value)
		}
	}
	if len(own) > 0 {
		words = append(words, "each with its own "+strings.Join(own, ", "))
	}
	state := stateWords[to]
	if len(words) == 0 {
		return state
	}
	return state + "; " + strings.Join(words, ", ")
}
