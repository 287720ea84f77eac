// Help and the trace within the terminal's width.

package cli

import (
	"cmp"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8/cwriter"

	"github.com/rawverbs/rawverbs/cmd/internal/view/columns"
)

// The widths of help. Longer lines than widest are hard to read.
const (
	usualWidth = 80
	narrowest  = 40
	widest     = 100
)

// terminalWidth returns the columns of standard output, or 0 if that is no terminal.
func terminalWidth() int {
	width, _, err := cwriter.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 { // a terminal may not know its size
		return 0
	}
	return max(width, narrowest)
}

// foldHelp makes cmd and its subcommands print help that fits the terminal, and 80 columns without one.
func foldHelp(cmd *cobra.Command) {
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		out := c.OutOrStdout()
		var text strings.Builder
		c.SetOut(&text)
		help(c, args)
		c.SetOut(out)
		_, _ = io.WriteString(out, fold(text.String(), helpWidth())) // Main looks at the errors of the output
	})
}

func helpWidth() int {
	return min(cmp.Or(terminalWidth(), usualWidth), widest)
}

// fold breaks text into lines of at most width columns. It joins the lines of a paragraph first. A line that is
// indented stays by itself; the rest of it goes below its last column, such as a flag's description.
func fold(text string, width int) string {
	var out strings.Builder
	prose := ""
	end := func() {
		if prose != "" {
			out.WriteString(columns.Paragraph("", prose, width))
		}
		prose = ""
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		switch line = strings.TrimRight(line, " "); {
		case line == "":
			end()
			out.WriteString("\n")
		case line[0] != ' ':
			prose = strings.TrimPrefix(prose+" "+line, " ")
		default:
			end()
			at := min(strings.LastIndex(line, "  ")+2, width/2)
			out.WriteString(columns.Paragraph(line[:at], line[at:], width))
		}
	}
	end()
	return out.String()
}
