// Package cli is what the commands share: flags and positions, where the output
// goes, signals and exit statuses.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vbauerster/mpb/v8/cwriter"

	"github.com/rawverbs/rawverbs/internal/job"
	"github.com/rawverbs/rawverbs/internal/run"
	"github.com/rawverbs/rawverbs/internal/trace"
	"github.com/rawverbs/rawverbs/verbs"
)

// The exit statuses.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT)
)

// Output is where and how a run is told.
type Output struct {
	JSON    bool
	Quiet   bool
	Verbose int // how often -v was given

	flush func() // writes what the output holds back; nil for nothing
}

// AddFlags adds the flags that both commands have.
func AddFlags(f *pflag.FlagSet, o *run.Options, out *Output) {
	f.Uint8Var(&o.IBPort, "ib-port", 1, "port of the device")
	f.IntVar(&o.MTU, "mtu", 0, "path MTU in bytes: 256, 512, 1024, 2048 or 4096 (default: the port's active MTU)")
	f.DurationVar(&o.Timeout, "timeout", 30*time.Second, "limit of each step, and of how long a job may stand still, such as 5s")
	f.StringVar(&o.PCAP, "pcap", "", "write the packets of a soft device to this file, for Wireshark")
	f.BoolVar(&out.JSON, "json", false, "print one JSON object a line for each event")
	f.BoolVar(&out.Quiet, "quiet", false, "print nothing but errors")
	f.CountVarP(&out.Verbose, "verbose", "v", "show more: -v each event with its time, -vv also dumps, waits and memory")
}

// Progress is the terminal that a progress bar may be shown on: standard error, if
// it and the narration's standard output are both one; else nil.
func (o *Output) Progress() io.Writer {
	if o.JSON || o.Quiet || !cwriter.IsTerminal(int(os.Stdout.Fd())) || !cwriter.IsTerminal(int(os.Stderr.Fd())) {
		return nil
	}
	return os.Stderr
}

// Positions reads the arguments that both commands end with:
// [device] [port] [gid_index]. The port is defaultPort if none is given.
func Positions(args []string, o *run.Options, port *int, defaultPort, lowestPort int) error {
	*port = defaultPort
	if len(args) > 0 {
		o.Device = args[0]
	}
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		if err != nil || n < lowestPort || n > 65535 {
			return job.Usagef("TCP port %q is not a number from %d to 65535", args[1], lowestPort)
		}
		*port = n
	}
	if len(args) > 2 {
		n, err := strconv.Atoi(args[2])
		if err != nil || n < 0 || n > 255 {
			return job.Usagef("GID index %q is not a number from 0 to 255; leave it out to have one chosen", args[2])
		}
		o.GIDIndex = &n
	}
	return nil
}

// CompleteDevice completes the position of a device's name.
func CompleteDevice() []string {
	devices, _ := verbs.Devices() // nothing to complete is no error
	var names []string
	for _, d := range devices {
		names = append(names, d.Name)
	}
	return names
}

// errInterrupted is why a run ends on a signal.
type errInterrupted struct{ os.Signal }

func (e errInterrupted) Error() string { return "stopped by the signal " + e.String() }

// Is makes an interruption a cancellation.
func (e errInterrupted) Is(target error) bool { return target == context.Canceled }

// Main runs a command until it is done or a signal comes, tells an error on
// standard error (and as an event), and returns the exit status. A second signal
// ends the process at once.
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
	*program = cmd.Name() + " " + version()
	cmd.Version = version()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.PersistentPreRun = func(*cobra.Command, []string) { *logger = out.logger(cmd.OutOrStdout()) }
	began := false
	for _, c := range append(cmd.Commands(), cmd) {
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
	if failed := stdout.failure(); failed != nil && (err == nil || errors.Is(failed, err)) {
		err = failed
	} else if err != nil && !began { // then cobra found the fault, such as a wrong number of arguments
		err = job.Usagef("%w", err)
	}
	if err == nil {
		return exitDone
	}
	// One line, and nothing in it that a terminal obeys: words of a peer's may be in it.
	text := trace.Printable(strings.ReplaceAll(err.Error(), "\n", "; "))
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.Name(), text)
	if errors.As(err, new(job.UsageError)) {
		fmt.Fprintf(cmd.ErrOrStderr(), "Usage: %s\nMore: %s --help\n", ran.UseLine(), ran.CommandPath())
		return exitUsage
	}
	if out.JSON {
		(*logger).LogAttrs(ctx, slog.LevelError, "failed", slog.String("who", who), slog.String("event", "run.failed"), slog.String("error", err.Error()))
	}
	if errors.As(err, new(errInterrupted)) {
		return exitInterrupted
	}
	return exitFailed
}

// checked remembers that a Write failed: neither who logs nor who asks for --help
// would say so.
type checked struct {
	w   io.Writer
	mu  sync.Mutex
	err error // of the first that failed
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

func (c *checked) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("the output was not written: %w; try: an output with room, or --quiet", c.err)
}

// Levels explains, for --help, what the output shows.
const Levels = `The output is a story of about 20 lines; NO_COLOR=1 takes its colours away. -v
prints each event on a line of its own, with its time and one of three words:
SLOW is the control path, where the kernel takes part, once in a connection (it
is no warning); FAST prepares data transfer: memory is registered, receives are
posted; DATA is data transfer itself. -vv adds dumps of queue pairs, work
requests, completions and memory.`

// logger makes the Logger of the run: the story, with -v the trace, with -vv the
// trace and its dumps.
func (o *Output) logger(w io.Writer) *slog.Logger {
	level := slog.LevelInfo
	if o.Verbose > 1 {
		level = trace.LevelWaits
	}
	switch {
	case o.Quiet:
		return slog.New(slog.DiscardHandler)
	case o.JSON:
		return slog.New(trace.NewJSON(w, level))
	case o.Verbose > 0:
		return slog.New(trace.NewNarration(w, level))
	}
	story := trace.NewStory(w, colour())
	o.flush = story.Flush
	return slog.New(story)
}

// colour says whether standard output shows colours and may: https://no-color.org.
func colour() bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && cwriter.IsTerminal(int(os.Stdout.Fd()))
}

// version is the module's version, or the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
