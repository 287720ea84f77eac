// What a job is, and the list of them.

package lab

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rawverbs/rawverbs/internal/folder"
	"github.com/rawverbs/rawverbs/rc"
)

// job is an exercise with a name and two halves. The client chooses it; the
// server follows. A job of another program's format (wire.go) is chosen at both ends.
type job struct {
	name  string
	about string   // what it does, in a line
	flags []string // the client's job flags that it uses
	needs []string // those without which it cannot be
	text  string   // what --text is if it is not given
	size  Size     // the same of --size; 0 is the common default
	ops   []string // what --op may be; the first if it is not given

	letters  map[string]string // short names of its flags, where it has a C program's
	defaults map[string]string // what flags are that are not given, where it is not the common one

	client func(ClientOptions) (half, error)
	server func(visit) (half, error)
}

// jobs are those of the native format, in the order to learn them in.
var jobs = append([]job{sendJob, writeReadJob, writeImmJob, exchangeWriteJob, exchangeReadJob, atomicJob, bulkJob, fileJob}, benchJobs...)

// half is one end's part in a job. A half is used for one connection.
type half interface {
	// configure chooses what the connection needs beyond the ordinary: sizes of
	// queues, access, another program's exchange, and at the client the parameters
	// that the server's half is made with.
	configure(*rc.Config)
	// prepare registers memory and posts receives, with the queue pair in INIT.
	prepare(*rc.Conn) error
	// run does the job, with both queue pairs in RTS.
	run(context.Context, *rc.Conn) error
}

// ender is a half with something left to do when its connection is closed, or
// could not be made: its queue pair is gone then, and can change nothing more.
type ender interface{ end() }

// visit is one client's coming, as a job's half at the server is told of it.
type visit struct {
	ServerOptions // with the Logger for this client
	params        params
	inbox         *folder.Folder // where files go; nil takes none
	ledger        *ledger        // the server's one, for the job atomic
}

// JobNames are the names of the native jobs, in the order to learn them in.
func JobNames() []string {
	return wires[0].jobNames()
}

// DescribeJobs lists the jobs, a line each.
func DescribeJobs() string {
	var list strings.Builder
	for _, j := range jobs {
		fmt.Fprintf(&list, "  %-16s %s\n", j.name, j.about)
	}
	return list.String()
}

// params are what the ends tell each other in their hellos. They are a stranger's
// words: each is checked where it is read.
type params map[string]string

const (
	paramSize    = "size"     // the client's: bytes of each buffer or region that it asks for
	paramMaxSize = "max_size" // the server's: the most that it gives
	paramChunk   = "chunk"    // the client's: bytes of each request, where there are many
)

// number reads a whole number from low to high.
func (p params) number(key string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(p[key], 10, 64)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("the peer's parameter %s is %q, which is no number from %d to %d; try: a peer of this program's version", key, p[key], low, high)
	}
	return n, nil
}

// flag reads a yes ("1") or, if it is left out, a no.
func (p params) flag(key string) (bool, error) {
	switch p[key] {
	case "":
		return false, nil
	case "1":
		return true, nil
	}
	return false, fmt.Errorf("the peer's parameter %s is %q, and can be 1 or left out; try: a peer of this program's version", key, p[key])
}

// ask tells the server how many bytes are asked for.
func (p params) ask(size int64) { p[paramSize] = strconv.FormatInt(size, 10) }

// most reads, at the client, how many bytes the server gives at most.
func (p params) most() (Size, error) {
	n, err := p.number(paramMaxSize, 1, maxSize)
	return Size(n), err
}

// size reads the bytes that the client asks for and holds them against what this
// server gives.
func (v *visit) size() (int, error) {
	n, err := v.params.number(paramSize, 1, maxSize)
	if err != nil {
		return 0, err
	}
	return int(n), within(Size(n), v.MaxSize)
}

// askable refuses, at the client, what the server would not give: before memory
// is taken for it here.
func askable(mine params, server params) error {
	if mine[paramSize] == "" {
		return nil
	}
	n, err := mine.number(paramSize, 1, maxSize)
	if err != nil {
		return err
	}
	most, err := server.most()
	if err != nil {
		return err
	}
	return within(Size(n), most)
}

func within(asked, most Size) error {
	if asked <= most {
		return nil
	}
	return fmt.Errorf("the client asks for %v bytes, and the server gives at most %v; try: rdma_client --size %v, or rdma_server --max-size", asked, most, most)
}
