// Command bench measures programs side by side, in turns within one run, and prints
// the ratios: make bench.
//
//	bench [-rounds N] [-only WORD] [-o FILE.json] perftest | rxe0 | sockets | cabi | cabi-rxe0 | lossy
//	bench [-markdown] table FILE.json...
//
// The parts are:
//
//	perftest  compares rdma_server and rdma_client with perftest, in the machine with rxe0
//	rxe0      compares the software device with rdma_rxe, in the machine with rxe0
//	sockets   compares the software device with programs that only move datagrams, on any host
//	cabi      compares perftest on the software device with our own programs there, on any host
//	cabi-rxe0 compares perftest on the software device with perftest on rdma_rxe, in the machine
//	lossy     compares the software device with rdma_rxe, in one of two machines (make bench-lossy)
//
// -device, -gid and -address let perftest measure on hardware. Run the command at the
// repository's root, where make builds the programs.
//
// A round is repeated if a program fails or prints a wrong result. The table names repeated
// rounds. Too many of them are an error.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(progress)
	rounds := flags.Int("rounds", 7, "turns of each program")
	only := flags.String("only", "", "only the comparisons that have this `word` in their name")
	file := flags.String("o", "", "write the results to this `file` instead of printing the table")
	where := rxe0
	flags.StringVar(&where.device, "device", where.device, "RDMA `device` of both ends")
	flags.StringVar(&where.gid, "gid", where.gid, "`index` of the device's GID")
	flags.StringVar(&where.address, "address", where.address, "the GID's IP `address`")
	flags.IntVar(&where.longer, "longer", where.longer, "`factor` of the messages per run, for devices that are faster than rxe0")
	flags.StringVar(&where.loss, "loss", "0%", "`share` of lost packets, for the names of the part lossy; test/vm/lossy.sh causes the losses")
	markdown := flags.Bool("markdown", false, "print the table in the form of docs/benchmarks.md")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch what := flags.Arg(0); {
	case what == socketServer && flags.NArg() == 2:
		return serveSockets(ctx, flags.Arg(1))
	case what == socketClient && flags.NArg() == 5:
		return measureSockets(ctx, flags.Args()[1:], out)
	case what == "table" && flags.NArg() > 1:
		results, err := readResults(flags.Args()[1:])
		if err != nil {
			return err
		}
		return printTables(out, results, *markdown)
	case !slices.Contains(partNames(), what) || flags.NArg() != 1 || *rounds < 1 || where.longer < 1:
		return fmt.Errorf("usage: bench [-rounds N] [-only WORD] [-o FILE.json] %s, or bench [-markdown] table FILE.json…", strings.Join(partNames(), " | "))
	default:
		results, err := measurePart(ctx, what, where, *rounds, *only, progress)
		if err != nil {
			return err
		}
		if *file == "" {
			return printTables(out, results, *markdown)
		}
		text, err := json.MarshalIndent(results, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(*file, append(text, '\n'), 0o644)
	}
}

// mostRepeated is the maximum number of repeated rounds per comparison. On a very busy
// machine rdma_rxe sometimes fails a request. perftest prints no bandwidth if it misjudges
// the processor's clock.
const mostRepeated = 2

// measurePart runs the comparisons of a part, one after the other.
func measurePart(ctx context.Context, name string, where on, rounds int, only string, progress io.Writer) (results []result, err error) {
	began := time.Now()
	at := slices.Index(partNames(), name)
	for _, c := range parts[at].make(where) {
		if !strings.Contains(c.Name, only) {
			continue
		}
		if missing := c.missing(); missing != nil {
			fmt.Fprintf(progress, "left out: %s: %v\n", c.Name, missing)
			continue
		}
		r, err := c.measure(ctx, name, rounds, progress)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
		fmt.Fprintf(progress, "%4.0f s  %s\n", time.Since(began).Seconds(), r.line())
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("nothing was measured: no comparison of %s has %q in its name, or its programs are missing", name, only)
	}
	return results, nil
}

// host names the processor and the kernel of this host, and says how busy it is.
func host() string {
	model := runtime.GOARCH
	text, _ := os.ReadFile("/proc/cpuinfo") // missing on other systems
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	minute, _, _ := bytes.Cut(load, []byte(" "))
	return fmt.Sprintf("%s, processors: %d, %s %s, load %s", model, runtime.NumCPU(), runtime.GOOS, bytes.TrimSpace(kernel), minute)
}

// missing returns an error if a program of the comparison is not installed.
func (c comparison) missing() error {
	for _, p := range c.programs {
		if p, ok := p.(perftest); ok {
			for _, name := range append([]string{p.name(c.Measure)}, p.by[:min(1, len(p.by))]...) {
				if _, err := exec.LookPath(name); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// measure runs the programs in turns for a number of rounds.
func (c comparison) measure(ctx context.Context, part string, rounds int, progress io.Writer) (result, error) {
	r := result{comparison: c, Part: part, Host: host()}
	for round := range rounds {
		turn, err := c.turn(ctx, round)
		if err != nil && ctx.Err() == nil && len(r.Repeated) < mostRepeated {
			fmt.Fprintf(progress, "repeated: %s, round %d: %v\n", c.Name, round+1, err)
			r.Repeated = append(r.Repeated, err.Error())
			turn, err = c.turn(ctx, round)
		}
		if err != nil {
			return r, fmt.Errorf("%s, round %d: %w", c.Name, round+1, err)
		}
		r.Rounds = append(r.Rounds, turn)
	}
	return r, nil
}

// readResults reads the files of -o and returns the results in the order of the parts.
func readResults(files []string) (all []result, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var results []result
		if err := json.Unmarshal(text, &results); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, results...)
	}
	slices.SortStableFunc(all, func(a, b result) int { return slices.Index(partNames(), a.Part) - slices.Index(partNames(), b.Part) })
	return all, nil
}
