// The formats of the exchange over TCP: the native one, and those of C programs
// that others wrote. A format has the jobs that its programs do; nothing but the
// exchange differs for a job, see half.

package lab

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// wire is a format of the exchange.
type wire struct {
	name  string
	about string // whose it is, in a line
	port  int    // TCP
	jobs  []job  // the first if none is named
}

// wireNative is the format in which the client says what the job is.
const wireNative = "native"

// wires are all formats.
var wires = []wire{
	{wireNative, "rdma_server and rdma_client: the client chooses the job", oob.DefaultPort, jobs},
	{"rc-example", "RDMA_RC_example of the RDMA Aware Networks Programming User Manual", oob.RCExamplePort, []job{rcExampleJob}},
	{"rocev2-learn", "rocev2-learn's rdma_server and rdma_client, in C", oob.DefaultPort, []job{rocev2LearnJob}},
	{"pingpong", "rdma-core's examples (Debian: ibverbs-utils): ibv_rc_pingpong and its kind", oob.DefaultPort, pingpongJobs},
	{"perftest", "ib_send_bw, ib_write_lat and their kind, of Debian 12's perftest", oob.DefaultPort, perftestJobs},
}

// WireNames are the names of all formats, the native one first.
func WireNames() []string {
	var names []string
	for _, w := range wires {
		names = append(names, w.name)
	}
	return names
}

// DescribeWires lists the formats other than the native one, and their jobs.
func DescribeWires() string {
	var list strings.Builder
	for _, w := range wires[1:] {
		fmt.Fprintf(&list, "  --wire %-13s %s\n", w.name, w.about)
		for _, j := range w.jobs {
			fmt.Fprintf(&list, "    %-18s %s\n", j.name, j.about)
		}
	}
	return list.String()
}

// PortOf is the TCP port that a format's programs take if none is given.
func PortOf(name string) int {
	w, err := findWire(name)
	if err != nil {
		return oob.DefaultPort // what is wrong is told elsewhere
	}
	return w.port
}

// findWire looks a format up by name; the error lists what there is.
func findWire(name string) (wire, error) {
	if name == "" {
		name = wireNative
	}
	i := slices.IndexFunc(wires, func(w wire) bool { return w.name == name })
	if i < 0 {
		return wire{}, fmt.Errorf("there is no exchange format %q here; try: %s", name, strings.Join(WireNames(), ", "))
	}
	return wires[i], nil
}

// isNative: the ends speak this program's own format.
func (w wire) isNative() bool { return w.name == wireNative }

// jobNames are the names of a format's jobs.
func (w wire) jobNames() []string {
	var names []string
	for _, j := range w.jobs {
		names = append(names, j.name)
	}
	return names
}

// find looks a job of the format up by name, "" being its first; the error lists
// what there is.
func (w wire) find(name string) (job, error) {
	if name == "" {
		return w.jobs[0], nil
	}
	i := slices.IndexFunc(w.jobs, func(j job) bool { return j.name == name })
	if i >= 0 {
		return w.jobs[i], nil
	}
	where := "here"
	if !w.isNative() {
		where = "of --wire " + w.name
	}
	return job{}, fmt.Errorf("there is no job %q %s; try: %s", name, where, strings.Join(w.jobNames(), ", "))
}

// rawTCP speaks another program's format, and tells of what it says and hears as
// the native messages are told of.
type rawTCP struct {
	narrator
	tcp *oob.Conn
}

func (n narrator) raw(c *rc.Conn) rawTCP { return rawTCP{n, c.TCP()} }

// send says what, which is data, in one write.
func (r rawTCP) send(ctx context.Context, what string, data []byte) error {
	if err := r.tcp.WriteAll(ctx, what, data); err != nil {
		return err
	}
	r.told(true, what, len(data))
	return nil
}

// receive hears n bytes.
func (r rawTCP) receive(ctx context.Context, what string, n int) ([]byte, error) {
	data := make([]byte, n)
	if _, err := r.tcp.ReadFull(ctx, what, data); err != nil {
		return nil, err
	}
	r.told(false, what, n)
	return data, nil
}

// swap is what both ends do that write, then read: as much as they wrote.
func (r rawTCP) swap(ctx context.Context, what string, data []byte) ([]byte, error) {
	if err := r.send(ctx, what, data); err != nil {
		return nil, err
	}
	return r.receive(ctx, what, len(data))
}

// unhurried is a limit for what has none but the job's own, of standing still: the
// exchange would set one.
const unhurried = 1000 * time.Hour

// ahead begins to wait for what the peer says next while the job goes on under the
// context that it makes. That one ends if the peer leaves instead, which an RDMA wait
// would not notice. heard gives the bytes.
func (r rawTCP) ahead(ctx context.Context, what string, n int) (until context.Context, heard func() ([]byte, error)) {
	until, leave := context.WithCancelCause(ctx)
	reading, stop := context.WithTimeout(ctx, unhurried)
	var data []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		if data, err = r.receive(reading, what, n); err != nil {
			leave(err)
		}
	}()
	return until, func() ([]byte, error) {
		<-done
		return data, err
	}
}

func (r rawTCP) told(sent bool, what string, bytes int) {
	verb := "received "
	if sent {
		verb = "sent "
	}
	tell(r.log, "slow", "oob.message", "tcp", verb+what, slog.Bool("sent", sent), slog.String("message", what), slog.String("name", ""),
		slog.Int("bytes", bytes), slog.String("peer", r.tcp.RemoteAddr().String()))
}

// asHere is what a format tells of a queue pair of the peer's. What it does not tell is as
// it is here: the path MTU, the READs in flight, the queue key.
func asHere(local, told oob.Endpoint) oob.Endpoint {
	local.LID, local.QPN, local.PSN, local.GID = told.LID, told.QPN, told.PSN, told.GID
	return local
}

// untilNUL is the text in a C program's buffer.
func untilNUL(data []byte) string {
	text, _, _ := strings.Cut(string(data), "\x00")
	return text
}
