// Package lab has what rdma_lab prints: the devices and their GIDs, the moves of a queue
// pair, and explanations of errors. Each function returns a report, which prints itself as
// text of 80 columns or is encoded as JSON.
package lab

import (
	"fmt"
	"io"
	"strings"

	"github.com/rawverbs/rawverbs/internal/job"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0
)

// UnknownCommand returns the error of a command line that names none of commands.
func UnknownCommand(args, commands []string) error {
	if len(args) == 0 {
		return job.Usagef("no command; try: one of %s", strings.Join(commands, ", "))
	}
	return job.Usagef("there is no command %q; try: one of %s", args[0], strings.Join(commands, ", "))
}

// notYet is a report that is not written yet.
type notYet struct{}

func (notYet) Fprint(w io.Writer) error {
	_, err := fmt.Fprintln(w, "not written yet")
	return err
}

func Devices() (notYet, error)               { return notYet{}, nil }
func GIDs(_, _ string) (notYet, error)       { return notYet{}, nil }
func States(string) (notYet, error)          { return notYet{}, nil }
func Move(_, _, _ string) (notYet, error)    { return notYet{}, nil }
func Explain([]string) (notYet, error)       { return notYet{}, nil }
func CheckMove([]string) error               { return nil }
func CompleteMove(string, []string) []string { return nil }
func CompleteExplain() []string              { return nil }
