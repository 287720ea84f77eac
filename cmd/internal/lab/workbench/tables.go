// Tables for the page that do not change: the transition table, bits, states, opcodes, statuses.

package workbench

import (
	"maps"
	"slices"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench/action"
	"github.com/rawverbs/rawverbs/internal/diagnosis"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/softroce/simulated"
	"github.com/rawverbs/rawverbs/verbs"
)

// Tables is everything that the page needs once.
type Tables struct {
	States      []string             `json:"states"`
	Bits        []BitRow             `json:"bits"`
	Transitions map[string][]MoveRow `json:"transitions"` // by type: "RC", "UC", "UD"
	Attributes  map[string][]string  `json:"attributes"`  // by type: the bits whose attributes it has
	Opcodes     map[string][]string  `json:"opcodes"`     // by type: the work requests it serves
	Access      []string             `json:"access"`
	Flags       []string             `json:"flags"`
	Statuses    []StatusRow          `json:"statuses"`
	Actions     []string             `json:"actions"`
	Lessons     []LessonView         `json:"lessons"`
	Mistakes    []MistakeView        `json:"mistakes"`
	Exam        []ExamView           `json:"exam"`
	Subjects    []string             `json:"subjects"` // of the examination
	RNRTimers   [32]int64            `json:"rnr_timers_ns"`
	ACKTimeouts [32]int64            `json:"ack_timeouts_ns"` // 0: forever
	Outcomes    []string             `json:"outcomes"`
	Limits      map[string]int       `json:"limits"`
}

// BitRow is a bit of the mask.
type BitRow struct {
	Bit   string `json:"bit"`
	Value uint32 `json:"value"`
	Field string `json:"field"` // of struct ibv_qp_attr
	About string `json:"about"`
}

// MoveRow is a legal move. STATE belongs to every mask and is not listed.
type MoveRow struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Required []string `json:"required"`
	Optional []string `json:"optional"`
}

// StatusRow is a completion status.
type StatusRow struct {
	Status string `json:"status"`
	Number uint32 `json:"number"`
	Cause  string `json:"cause,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

// AllTables returns the tables.
func AllTables() Tables {
	t := Tables{Transitions: map[string][]MoveRow{}, Attributes: map[string][]string{}, Opcodes: map[string][]string{},
		Flags: sorted(^verbs.SendFlags(0), flagBits), Lessons: lessonViews(), Mistakes: mistakeViews(), Exam: examViews(), Subjects: subjects, Outcomes: simulated.Outcomes(),
		Limits: map[string]int{"objects": maxObjects, "region": maxRegion, "queue": maxQueue, "wrs": maxWRs, "actions": maxActions}}
	for _, a := range accessOrder {
		t.Access = append(t.Access, a.Name())
	}
	for _, s := range qpstate.States() {
		t.States = append(t.States, s.Name())
	}
	for _, b := range action.AllBits.Bits() {
		t.Bits = append(t.Bits, BitRow{b.Name(), uint32(b), action.Fields[b], b.About()})
	}
	for _, typ := range qpstate.Types() {
		rows := []MoveRow{}
		for _, m := range qpstate.Transitions(typ) {
			if typ == qpstate.RC && m.From == qpstate.SQE {
				continue // the kernel's table has them, but a failed send takes an RC queue pair to ERR
			}
			rows = append(rows, MoveRow{m.From.Name(), m.To.Name(), bitList(m.Required), bitList(m.Optional)})
		}
		t.Transitions[typ.Name()] = rows
		for _, b := range applies[typ] {
			t.Attributes[typ.Name()] = append(t.Attributes[typ.Name()], b.Name())
		}
		for o := verbs.OpRDMAWrite; o <= verbs.OpAtomicWrite; o++ {
			if simulated.Serves(typ, o) {
				t.Opcodes[typ.Name()] = append(t.Opcodes[typ.Name()], opcodeName(o))
			}
		}
	}
	for s := verbs.WCSuccess; s <= verbs.WCGeneralErr; s++ {
		row := StatusRow{Status: statusName(s), Number: uint32(s)}
		if e := diagnosis.OfStatus(uint32(s)); e != nil {
			row.Cause, row.Remedy = e.Cause, e.Remedy
		}
		t.Statuses = append(t.Statuses, row)
	}
	for code := range uint8(32) {
		t.RNRTimers[code] = int64(qpstate.RNRTimer(code))
		t.ACKTimeouts[code] = int64(qpstate.ACKTimeout(code))
	}
	t.Actions = actionNames()
	return t
}

func actionNames() []string {
	names := slices.Collect(maps.Keys(kinds))
	for name := range worldKinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
