// Command param-server is an example of package rc: a parameter server. Workers
// fetch a model's weights by RDMA READ, compute a gradient on data of their own,
// and push it by RDMA WRITE into their slot at the server, which averages the
// gradients and moves the weights: synchronous stochastic gradient descent.
//
//	param-server demo               the server and its workers in one process
//	param-server server             on one host
//	param-server worker 10.0.0.1    on others
//
// Read it in this order: model.go has the computation, without RDMA; layout.go has the layout of
// the shared memory and the four steps of a round; server.go and worker.go have the two ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
	"github.com/rawverbs/rawverbs/verbs"
)

// settings are the choices on the command line.
type settings struct {
	device    string
	port      int
	timeout   time.Duration // of a round, and of each step of connecting
	workers   int
	rounds    int
	rate      float64 // how far a round moves the weights along the gradient
	tolerance float64 // how near to the known weights is near enough
	seed      uint64  // of the data and the known weights
}

const usage = `Usage: param-server demo   [flags]            server and workers in one process
       param-server server [flags]            wait for workers, train
       param-server worker [flags] ADDRESS    work for the server at ADDRESS
Flags:
`

// errUsage is the error of a wrong command line.
var errUsage = errors.New("wrong command line")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	out := &checked{Writer: os.Stdout}
	err := run(ctx, os.Args[1:], out, os.Stderr)
	stop()
	if err == nil {
		err = out.err
	}
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "param-server:", err)
	if errors.Is(err, errUsage) {
		os.Exit(2)
	}
	os.Exit(1)
}

// checked is a writer that keeps its first error, so that callers need not check each Write. It is for
// one goroutine.
type checked struct {
	io.Writer
	err error
}

func (c *checked) Write(text []byte) (int, error) {
	n, err := c.Writer.Write(text)
	if c.err == nil {
		c.err = err
	}
	return n, err
}

func run(ctx context.Context, args []string, out, complaints io.Writer) error {
	var s settings
	flags := flag.NewFlagSet("param-server", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	help := func(to io.Writer) {
		_, _ = fmt.Fprint(to, usage) // out keeps the error
		flags.SetOutput(to)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.device, "device", "soft0", "the RDMA device")
	flags.IntVar(&s.port, "port", 18516, "the server's TCP port")
	flags.DurationVar(&s.timeout, "timeout", 10*time.Second, "how long a worker may take for a round")
	flags.IntVar(&s.workers, "workers", 3, "how many workers the server waits for")
	flags.IntVar(&s.rounds, "rounds", 40, "how often the server moves the weights")
	flags.Float64Var(&s.rate, "rate", 0.2, "the learning rate")
	flags.Float64Var(&s.tolerance, "tolerance", 0.01, "how near the weights must come to the known ones")
	flags.Uint64Var(&s.seed, "seed", 1, "of the data")
	part := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		part, args = args[0], args[1:]
	}
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		help(out)
		return nil
	case err != nil:
		help(complaints)
		return fmt.Errorf("%w: %w", errUsage, err)
	case part == "":
		help(complaints)
		return fmt.Errorf("%w: which part? try: param-server demo", errUsage)
	}
	addresses := 0
	if part == "worker" {
		addresses = 1
	}
	switch {
	case part != "demo" && part != "server" && part != "worker":
		return fmt.Errorf("%w: there is no %q; try: demo, server or worker", errUsage, part)
	case flags.NArg() != addresses:
		return fmt.Errorf("%w: param-server %s takes %d addresses after the flags, and there are %d", errUsage, part, addresses, flags.NArg())
	case s.workers < 1 || s.rounds < 1 || s.timeout <= 0:
		return fmt.Errorf("%w: --workers, --rounds and --timeout must be above 0", errUsage)
	}

	dev, err := verbs.Open(s.device)
	if err != nil {
		return err
	}
	switch part {
	case "demo":
		err = demo(ctx, dev, s, out)
	case "server":
		err = serve(ctx, dev, s, fmt.Sprintf(":%d", s.port), nil, out)
	case "worker":
		err = work(ctx, dev, s, net.JoinHostPort(flags.Arg(0), fmt.Sprint(s.port)), out)
	}
	return errors.Join(err, dev.Close())
}

// demo runs the server and its workers in this process, on one device. If one of them fails, demo stops
// the others.
func demo(ctx context.Context, dev *verbs.Device, s settings, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan error, s.workers)
	started := 0
	err := serve(ctx, dev, s, "127.0.0.1:0", func(address string) {
		for ; started < s.workers; started++ {
			go func() {
				err := work(ctx, dev, s, address, io.Discard)
				if err != nil {
					stop(err)
				}
				done <- err
			}()
		}
	}, out)
	if err != nil {
		stop(err)
	}
	for range started {
		if failed := <-done; err == nil {
			err = failed
		}
	}
	return err
}
