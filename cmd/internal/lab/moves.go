// The moves of a queue pair.

package lab

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
	"github.com/rawverbs/rawverbs/qpstate"
)

// MoveTable is the report of all legal moves of a type.
type MoveTable struct {
	Type  string    `json:"type"`
	Moves []MoveRow `json:"moves"`
}

// MoveRow is one legal move. STATE belongs to every mask and is not listed.
type MoveRow struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Required []string `json:"required"`
	Optional []string `json:"optional"`
}

// States returns the legal moves of a type of queue pair.
func States(typ string) (*MoveTable, error) {
	t, err := parseType(typ)
	if err != nil {
		return nil, err
	}
	table := &MoveTable{Type: t.Name(), Moves: []MoveRow{}}
	for _, move := range qpstate.Transitions(t) {
		table.Moves = append(table.Moves, MoveRow{
			From: move.From.Name(), To: move.To.Name(), Required: bitNames(move.Required), Optional: bitNames(move.Optional),
		})
	}
	return table, nil
}

func bitNames(m qpstate.Mask) []string {
	names := []string{}
	for _, bit := range m.Bits() {
		names = append(names, bit.Name())
	}
	return names
}

// Text has one row for each move. The moves to RESET and to ERR share a row each.
func (t *MoveTable) Text() string {
	var p columns.Page
	p.Para("", "The legal moves of "+t.Type+" queue pairs. Each mask also has STATE. \"rdma_lab states FROM TO\" explains one move.")
	p.Line("")
	p.Row(moveWidths, "MOVE", "REQUIRED", "OPTIONAL")
	for _, move := range t.Moves {
		if move.To != "RESET" && move.To != "ERR" {
			p.Row(moveWidths, move.From+"→"+move.To, list(move.Required), list(move.Optional))
		}
	}
	p.Row(moveWidths, "any→RESET", "-", "-")
	p.Row(moveWidths, "any→ERR", "-", "-")
	p.Line("")
	p.Para("", "\"any\" is each of the seven states, but a queue pair in RESET cannot go to ERR.")
	if t.Type == qpstate.RC.Name() {
		p.Para("", "SQE→RTS: "+onlyUnreliable+".")
	}
	return p.String()
}

func list(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ", ")
}

// parseType returns the type of a queue pair by its name.
func parseType(name string) (qpstate.Type, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "IBV_QPT_")
	for _, t := range qpstate.Types() {
		if t.Name() == short {
			return t, nil
		}
	}
	return 0, usage.Errorf("there is no type %q of queue pairs here; try: --type RC, UC or UD", name)
}

func parseState(name string) (qpstate.State, error) {
	short := strings.TrimPrefix(strings.ToUpper(name), "IBV_QPS_")
	if short == "ERROR" {
		return qpstate.Error, nil
	}
	var names []string
	for _, s := range qpstate.States() {
		if s.Name() == short {
			return s, nil
		}
		names = append(names, s.Name())
	}
	if best := Closest(short, names); best != "" {
		return 0, usage.Errorf("there is no state %q; try: %s", name, best)
	}
	return 0, usage.Errorf("there is no state %q; try: one of %s", name, strings.Join(names, ", "))
}

// StateReport is the report of one state: what it allows, and the moves from it.
type StateReport struct {
	State    string `json:"state"`
	Receives string `json:"receives"`
	Sends    string `json:"sends"`
	Note     string `json:"note,omitempty"`
	MoveTable
}

// State returns what a state allows, and the legal moves of a type from it.
func State(typ, name string) (*StateReport, error) {
	s, err := parseState(name)
	if err != nil {
		return nil, err
	}
	table, err := States(typ)
	if err != nil {
		return nil, err
	}
	table.Moves = slices.DeleteFunc(table.Moves, func(move MoveRow) bool { return move.From != s.Name() })
	row := stateTable()[s.Name()]
	r := &StateReport{State: s.Name(), Receives: row.Receives, Sends: row.Sends, MoveTable: *table}
	if s == qpstate.SQE && r.Type == qpstate.RC.Name() {
		r.Note = "SQE→RTS: " + onlyUnreliable
	}
	return r, nil
}

// onlyUnreliable is what the table does not say of RC and SQE.
const onlyUnreliable = "the table permits it; a device moves only UC and UD queue pairs to SQE"

// Text has the state, and a row for each move.
func (r *StateReport) Text() string {
	var p columns.Page
	p.Para("", "A queue pair of type "+r.Type+" in "+r.State+". \"rdma_lab states "+r.State+" TO\" explains a move.")
	p.Line("")
	p.Para("receives  ", r.Receives)
	p.Para("sends     ", r.Sends)
	if r.Note != "" {
		p.Para("note      ", r.Note)
	}
	p.Line("")
	p.Row(moveWidths, "MOVE", "REQUIRED", "OPTIONAL")
	for _, move := range r.Moves {
		p.Row(moveWidths, move.From+"→"+move.To, list(move.Required), list(move.Optional))
	}
	return p.String()
}

// moveWidths are those of the first columns of a table of moves.
var moveWidths = []int{12, 31}

// CompleteMove returns the states that may follow args, for shell completion.
func CompleteMove(typ string, args []string) []string {
	var names []string
	t, err := parseType(typ)
	switch {
	case err != nil || len(args) > 1:
	case len(args) == 0:
		for _, s := range qpstate.States() {
			names = append(names, s.Name())
		}
	default:
		if from, err := parseState(args[0]); err == nil {
			names = legal(t, from)
		}
	}
	return names
}

// legal returns the states that a queue pair can go to.
func legal(t qpstate.Type, from qpstate.State) []string {
	var names []string
	for _, move := range qpstate.Transitions(t) {
		if move.From == from {
			names = append(names, move.To.Name())
		}
	}
	return names
}

// noMove returns the error of an illegal move: the moves that are legal, and the way there.
func noMove(t qpstate.Type, from, to qpstate.State) error {
	text := fmt.Sprintf("%s has no move %s→%s; from %s it can go to %s", t.Name(), from.Name(), to.Name(), from.Name(), strings.Join(legal(t, from), ", "))
	if way := shortest(t, from, to); way != "" {
		text += "; try: " + way
	}
	return errors.New(text)
}

// shortest returns the shortest way between two states, "INIT→RTR→RTS", or "". It does not
// go through RESET, which loses the queue pair's work.
func shortest(t qpstate.Type, from, to qpstate.State) string {
	for ways := [][]qpstate.State{{from}}; len(ways) > 0; ways = ways[1:] {
		way := ways[0]
		for _, move := range qpstate.Transitions(t) {
			if move.From != way[len(way)-1] || slices.Contains(way, move.To) || move.To == qpstate.Reset {
				continue
			}
			longer := append(slices.Clone(way), move.To)
			if move.To == to {
				var names []string
				for _, s := range longer {
					names = append(names, s.Name())
				}
				return strings.Join(names, "→")
			}
			ways = append(ways, longer)
		}
	}
	return ""
}
