// The manual page of a command, with its subcommands, in the language of man(7).

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Files is the annotation of a command with the files that its manual page names, one per line: "path: what it is".
const Files = "files"

// TLSFiles are the lines of [Files] for --tls.
const TLSFiles = `DIR/tls.crt: with --tls DIR: the certificate of this end
DIR/tls.key: its private key
DIR/ca.crt: the CA of the other end's certificate`

// programs are the commands that have a manual page.
var programs = []string{"rawverbs", "rdma_client", "rdma_lab", "rdma_server"}

func manCommand(of *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "man", Short: "Print the manual page; read it: " + of.Name() + " man | man -l -",
		Args: Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), manual(of))
			return err
		},
	}
}

// manual returns the manual page of a program.
func manual(of *cobra.Command) string {
	var page strings.Builder
	name := of.Name()
	fmt.Fprintf(&page, ".TH %s 1 \"\" \"rawverbs %s\"\n.SH NAME\n%s \\- %s\n", strings.ToUpper(name), roff(of.Version), name, roff(of.Short))
	fmt.Fprintf(&page, ".SH SYNOPSIS\n%s\n.SH DESCRIPTION\n%s.SH OPTIONS\n%s", bold(of.UseLine()), prose(of.Long), options(of.LocalFlags()))
	page.WriteString(".SH COMMANDS\n" + commands(of, name+" "))
	fmt.Fprintf(&page, ".SH EXAMPLES\n%s", prose(of.Example))
	if files := of.Annotations[Files]; files != "" {
		page.WriteString(".SH FILES\n")
		for line := range strings.Lines(files) {
			path, what, _ := strings.Cut(strings.TrimSpace(line), ": ")
			fmt.Fprintf(&page, ".TP\n\\fI%s\\fP\n%s\n", roff(path), roff(what))
		}
	}
	others := slices.DeleteFunc(slices.Clone(programs), func(other string) bool { return other == name })
	fmt.Fprintf(&page, ".SH SEE ALSO\n\\fB%s\\fP(1)\n", strings.Join(others, "\\fP(1), \\fB"))
	return page.String()
}

// commands returns a part for each command below of. prefix is what their usage begins with.
func commands(of *cobra.Command, prefix string) string {
	var out strings.Builder
	for _, c := range of.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		fmt.Fprintf(&out, ".SS %s\n%s.\n", roff(strings.TrimPrefix(c.UseLine(), prefix)), roff(c.Short))
		if c.Name() != "completion" {
			fmt.Fprintf(&out, ".PP\n%s%s%s", prose(c.Long), options(c.LocalFlags()), commands(c, prefix))
		}
	}
	return out.String()
}

// prose returns text in paragraphs. A paragraph whose lines are indented stays as it is.
func prose(text string) string {
	var out strings.Builder
	for i, paragraph := range strings.Split(strings.Trim(text, "\n"), "\n\n") {
		if i > 0 {
			out.WriteString(".PP\n")
		}
		lines := roff(strings.Trim(paragraph, "\n"))
		if strings.HasPrefix(lines, " ") {
			lines = ".nf\n" + lines + "\n.fi"
		}
		out.WriteString(lines + "\n")
	}
	return out.String()
}

// options returns a paragraph for each flag.
func options(flags *pflag.FlagSet) string {
	var out strings.Builder
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		out.WriteString(".TP\n")
		if f.Shorthand != "" {
			out.WriteString(bold("-"+f.Shorthand) + ", ")
		}
		out.WriteString(bold("--" + f.Name))
		if value != "" {
			fmt.Fprintf(&out, " \\fI%s\\fP", roff(value))
		}
		fmt.Fprintf(&out, "\n%s", roff(usage))
		if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
			fmt.Fprintf(&out, " (default %s)", roff(f.DefValue))
		}
		out.WriteString("\n")
	})
	return out.String()
}

func bold(text string) string { return `\fB` + roff(text) + `\fP` }

// roff escapes text: a hyphen would become a dash, and a line that begins with a period a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
