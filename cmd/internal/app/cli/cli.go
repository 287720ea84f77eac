// Package cli has the common parts of the commands: flags, positional arguments, output,
// signals and exit statuses.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8/cwriter"
	"golang.org/x/sys/unix"

	"github.com/rawverbs/rawverbs/cmd/internal/app/run"
	"github.com/rawverbs/rawverbs/cmd/internal/app/summary"
	"github.com/rawverbs/rawverbs/cmd/internal/app/systemd"
	"github.com/rawverbs/rawverbs/cmd/internal/app/version"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/verbs"
)

// The exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

// Output selects how a run is reported.
type Output struct {
	JSON    bool
	Quiet   bool
	Ladder  bool
	Verbose int  // how often -v was given
	Log     View // without the others

	flush func() // writes buffered output; nil if nothing is buffered
}

// AddFlags adds the flags of both commands to f.
func AddFlags(f *pflag.FlagSet, o *run.Options, out *Output) {
	f.Uint8Var(&o.IBPort, "ib-port", 1, "port of the device")
	f.IntVar(&o.MTU, "mtu", 0, "path MTU in bytes: 256, 512, 1024, 2048 or 4096 (default: the port's active MTU)")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "limit of each step, and of a job without progress, such as 5s")
	f.StringVar(&o.TLS, "tls", "", "directory with tls.crt, tls.key and ca.crt: the exchange is TLS 1.3, and each end shows a certificate (rdma_lab tls makes directories)")
	f.StringVar(&o.PCAP, "pcap", "", "write the packets of a soft device to this file, to read with Wireshark; a benchmark fills gigabytes")
	f.BoolVar(&out.JSON, "json", false, "print each event as a JSON object on its own line")
	f.BoolVar(&out.Quiet, "quiet", false, "print only warnings and errors, to standard error")
	f.CountVarP(&out.Verbose, "verbose", "v", "show more: -v each event with its time, -vv also dumps, waits and memory")
}

// AddLadder adds the flag --ladder of the client, which stands in place of the story.
func AddLadder(f *pflag.FlagSet, out *Output) {
	f.BoolVar(&out.Ladder, "ladder", false, "draw both ends side by side when the run has ended, in place of the story (docs/record.md)")
}

// View is what the server prints: the story, or a summary.
type View string

// The views.
const (
	viewStory   View = "story"
	viewSummary View = "summary"
)

func (v *View) String() string { return cmp.Or(string(*v), string(viewStory)) }

// Set sets the view of a name.
func (v *View) Set(name string) error {
	if *v = View(name); *v != viewStory && *v != viewSummary {
		return errors.New("try: --log story, or --log summary")
	}
	return nil
}

// Type returns the word for a value, for --help.
func (*View) Type() string { return "view" }

// AddLog adds the flag --log of the server.
func AddLog(f *pflag.FlagSet, out *Output) {
	f.Var(&out.Log, "log", "what to print: story, or summary: one line per client, and warnings; --json, --quiet and -v override it")
}

// Drawing returns what draws a run to w; nil without --ladder. Main reports what w could not write.
func (o *Output) Drawing(w io.Writer) func(*trace.Record) {
	if !o.Ladder {
		return nil
	}
	return func(rec *trace.Record) { _ = rec.WriteLadder(w, colour()) }
}

// Progress returns the terminal for a progress bar: standard error, if both standard error
// and standard output are terminals. Otherwise it returns nil.
func (o *Output) Progress() io.Writer {
	if o.JSON || o.Quiet || !cwriter.IsTerminal(int(os.Stdout.Fd())) || !cwriter.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return os.Stderr
}

// Positions reads the positional arguments of both commands, [device] [port] [gid_index],
// into o and port. The port is defaultPort if args has none.
func Positions(args []string, o *run.Options, port *int, defaultPort, lowestPort int) error {
	*port = defaultPort
	if len(args) > 0 {
		o.Device = args[0]
	}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < lowestPort || n > 65535 {
			return usage.Errorf("TCP port %q is not a number from %d to 65535", args[1], lowestPort)
		}
		*port = n
	}
	if len(args) > 2 {
		n, err := strconv.Atoi(args[2])
		if err != nil || n < 0 || n > 255 {
			return usage.Errorf("GID index %q is not a number from 0 to 255; omit it to use a suitable one", args[2])
		}
		o.GIDIndex = &n
	}
	return nil
}

// Host returns a host without the brackets that an IPv6 address may have: "::1" of "[::1]".
func Host(text string) string {
	if inner, is := strings.CutPrefix(text, "["); is && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]")
	}
	return text
}

// CompleteDevice returns the device names, for shell completion.
func CompleteDevice() []string {
	devices, _ := verbs.Devices() // completion shows no errors
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

// Complete offers names for the value of a flag.
func Complete(cmd *cobra.Command, flag string, names func() []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return names(), cobra.ShellCompDirectiveNoFileComp
	}); err != nil {
		panic(err) // the flag does not exist
	}
}

// CompleteArgument offers names for one of the positional arguments, of which at are before it.
func CompleteArgument(at int, names func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) != at {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(), cobra.ShellCompDirectiveNoFileComp
	}
}

// errInterrupted is the error of a run that a signal stopped.
type errInterrupted struct{ os.Signal }

func (e errInterrupted) Error() string {
	return "stopped by " + unix.SignalName(e.Signal.(syscall.Signal))
}

// Is reports whether target is context.Canceled.
func (e errInterrupted) Is(target error) bool { return target == context.Canceled }

// Main runs a command and returns its exit status. It prints an error to standard error,
// and with --json also logs it as an event. An error may have an exit status of its own, as its
// method ExitStatus. The first SIGINT or SIGTERM cancels the
// command; the second ends the process at once.
func Main(cmd *cobra.Command, who string, out *Output, logger **slog.Logger, program *string) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(errInterrupted{s})
	}()

	stdout := &checked{w: cmd.OutOrStdout()}
	cmd.SetOut(stdout)
	*logger = slog.New(slog.DiscardHandler)
	cmd.Version = version.String()
	*program = cmd.Name() + " " + cmd.Version
	cmd.AddCommand(manCommand(cmd))
	foldHelp(cmd)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.PersistentPreRun = func(*cobra.Command, []string) { *logger = out.logger(cmd.OutOrStdout(), cmd.ErrOrStderr()) }
	explain := cmd.FlagErrorFunc()
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return explain(c, didYouMean(c.Flags(), err)) })
	began := false
	all := []*cobra.Command{cmd}
	for i := 0; i < len(all); i++ {
		c := all[i]
		all = append(all, c.Commands()...)
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				began = true
				return run(cmd, args)
			}
		}
	}

	ran, err := cmd.ExecuteContextC(ctx)
	if out.flush != nil {
		out.flush()
	}
	if failed := stdout.failure(ran.Flag("quiet") != nil); failed != nil && (err == nil || errors.Is(failed, err)) {
		err = failed
	} else if err != nil && !began { // cobra refused the arguments
		err = usage.Errorf("%w", err)
	}
	if err == nil {
		return exitDone
	}
	// The text may contain the peer's text: print one line without control characters.
	text := trace.Printable(strings.ReplaceAll(err.Error(), "\n", "; "))
	lines := []string{cmd.Name() + ": " + text}
	wrong := errors.As(err, new(usage.Error))
	if wrong {
		lines = append(lines, "Usage: "+ran.UseLine(), "More: "+ran.CommandPath()+" --help")
	}
	priority := ""
	if systemd.IsJournal(cmd.ErrOrStderr()) {
		priority = systemd.Priority(slog.LevelError)
	}
	for _, line := range lines {
		fmt.Fprintln(cmd.ErrOrStderr(), priority+line)
	}
	if wrong {
		return exitUsage
	}
	if out.JSON {
		event.RunFailed.LogAt(slog.LevelError, (*logger).With(slog.String("who", who)), "failed", slog.String("error", err.Error()))
	}
	if errors.As(err, new(errInterrupted)) {
		return exitInterrupted
	}
	var own interface{ ExitStatus() int }
	if errors.As(err, &own) {
		return own.ExitStatus()
	}
	return exitFailed
}

// didYouMean adds the flags whose names are nearly that of an unknown one, by cobra's rule for commands.
func didYouMean(flags *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return err
	}
	names := &cobra.Command{SuggestionsMinimumDistance: 2}
	flags.VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	near := names.SuggestionsFor(unknown.GetSpecifiedName())
	if len(near) == 0 || len(unknown.GetSpecifiedName()) < 3 { // a letter is near to all
		return err
	}
	return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, ", --"))
}

// checked remembers the first error of Write, because loggers and --help ignore it.
type checked struct {
	w   io.Writer
	mu  sync.Mutex
	err error // of the first Write that failed
}

func (c *checked) Write(text []byte) (int, error) {
	n, err := c.w.Write(text)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.err = cmp.Or(c.err, err)
	}
	return n, err
}

// Unwrap returns the file: a summary looks whether it is systemd's journal.
func (c *checked) Unwrap() io.Writer { return c.w }

// failure returns the first error with its remedy. quiet: the command has the flag --quiet.
func (c *checked) failure(quiet bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	remedy := "an output with free space"
	if quiet {
		remedy += ", or --quiet"
	}
	return fmt.Errorf("write the output: %w; try: %s", c.err, remedy)
}

// Levels describes the output, for --help.
const Levels = `The output is a story of 20 to 45 lines; NO_COLOR=1 turns colours off. -v prints
each event with its time. CONTROL marks system calls and messages over TCP, a few per
connection. DATA marks work requests and completions, which bypass the kernel. -vv
adds dumps of queue pairs, work requests, completions and memory.`

// logger returns the Logger of the run. It prints the story or the summary, with -v the trace, and with
// -vv the trace with dumps. Warnings that --quiet and --ladder leave go to complaints.
func (o *Output) logger(w, complaints io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if o.Verbose > 1 {
		level = event.LevelWaits
	}
	switch {
	case o.Quiet, o.Ladder:
		return slog.New(summary.New(complaints, slog.LevelWarn))
	case o.JSON:
		return slog.New(trace.NewJSON(w, level))
	case o.Verbose > 0:
		return slog.New(trace.NewNarration(w, level, terminalWidth()))
	case o.Log == viewSummary:
		return slog.New(summary.New(w, slog.LevelInfo))
	}
	story := trace.NewStory(w, colour())
	o.flush = story.Flush
	return slog.New(story)
}

// colour reports whether standard output is a terminal with colours and the user allows
// them: https://no-color.org.
func colour() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && cwriter.IsTerminal(int(os.Stdout.Fd()))
}
