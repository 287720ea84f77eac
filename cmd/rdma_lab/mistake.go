package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawverbs/rawverbs/cmd/internal/app/cli"
	"github.com/rawverbs/rawverbs/cmd/internal/lab"
	"github.com/rawverbs/rawverbs/cmd/internal/lab/mistake"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

func mistakes(a *app) *cobra.Command {
	var o mistake.Options
	var list, ask bool
	var index int
	cmd := &cobra.Command{
		Use:   "mistake <name>",
		Short: "Make a mistake on a device, and explain what is seen",
		Long: `mistake makes one mistake with raw verbs, for real: this program has both ends. It
prints the calls of both ends, what each end saw, the packets (on soft0), why, and
the remedy. docs/mistakes.md has all mistakes, as questions.

Exit status 1 means that the device reported something else than the mistake
promises. If a device cannot show a mistake, the command says why and succeeds.`,
		Example: `  rdma_lab mistake --list
  rdma_lab mistake bad-rkey
  rdma_lab mistake --ask no-receive
  rdma_lab mistake --device rxe0 psn-off-by-one`,
		Args:              cli.Arguments(0, 1),
		ValidArgsFunction: cli.CompleteArgument(0, mistake.Names),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				return a.print(cmd, mistake.Groups(), nil)
			}
			m, err := chooseMistake(args)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("gid-index") {
				if index < 0 || index > 255 {
					return usage.Errorf("GID index %d is not a number from 0 to 255; omit it to use a suitable one", index)
				}
				o.GIDIndex = &index
			}
			if ask {
				if a.out.JSON {
					return usage.Errorf("--ask is for people and --json is for programs; try: one of them")
				}
				if err := question(cmd, m); err != nil {
					return err
				}
			}
			r, err := m.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			r.Asked = ask
			if err := a.print(cmd, r, nil); err != nil {
				return err
			}
			return r.Err()
		},
	}
	f := cmd.Flags()
	f.BoolVar(&list, "list", false, "list the mistakes")
	f.BoolVar(&ask, "ask", false, "print the question, and the answer after Enter")
	f.StringVar(&o.Device, "device", "soft0", "the device of both ends")
	f.IntVar(&index, "gid-index", 0, "GID index of both ends (default: that of a suitable GID)")
	cli.Complete(cmd, "device", cli.CompleteDevice)
	return cmd
}

// chooseMistake returns the mistake that the arguments name.
func chooseMistake(args []string) (mistake.Mistake, error) {
	if len(args) == 0 {
		return mistake.Mistake{}, usage.Errorf("no mistake; try: rdma_lab mistake --list")
	}
	m, ok := mistake.Find(args[0])
	if ok {
		return m, nil
	}
	try := "rdma_lab mistake --list"
	if best := lab.Closest(args[0], mistake.Names()); best != "" {
		try = best
	} else if about := mistake.About(args[0]); len(about) > 0 {
		try = strings.Join(about, ", or ")
	}
	return m, usage.Errorf("there is no mistake %q; try: %s", args[0], try)
}

// question prints a mistake's question and waits for Enter, 4096 bytes without it, the end of the
// input or a signal.
func question(cmd *cobra.Command, m mistake.Mistake) error {
	if _, err := fmt.Fprint(cmd.OutOrStdout(), m.Ask()+"\nPress Enter to see the answer. "); err != nil {
		return err
	}
	entered := make(chan struct{})
	go func() {
		// An error is the end of the input. The limit is for an input without lines, such as /dev/zero.
		_, _ = bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 4096)).ReadString('\n')
		close(entered)
	}()
	select {
	case <-entered:
		_, err := fmt.Fprintln(cmd.OutOrStdout())
		return err
	case <-cmd.Context().Done():
		return context.Cause(cmd.Context())
	}
}
