// Package lab has what rdma_lab prints: the devices and their GIDs, the moves of a queue
// pair, and explanations of errors. Each function returns a report, which prints itself as
// text of 80 columns, and which encoding/json encodes for --json.
package lab

import (
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0
)

// UnknownCommand returns the error of a command line that names none of commands.
func UnknownCommand(args, commands []string) error {
	if len(args) == 0 {
		return usage.Errorf("no command; try: one of %s", strings.Join(commands, ", "))
	}
	if best := Closest(args[0], commands); best != "" {
		return usage.Errorf("there is no command %q; try: %s", args[0], best)
	}
	return usage.Errorf("there is no command %q; try: one of %s", args[0], strings.Join(commands, ", "))
}
