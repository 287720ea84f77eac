//go:build rdma

// The common parts of the benchmarks: the verbs objects, one round of work, and the runs of
// the C program.

package versus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	rounds       = 400 // rounds per turn
	alternations = 15  // turns per program
)

var batches = []int{1, 16, 64}

func deviceName(t testing.TB) string {
	t.Helper()
	name := os.Getenv("RDMA_TEST_DEVICE")
	if name == "" {
		t.Fatal("RDMA_TEST_DEVICE is not set; try: make bench-c, which sets it")
	}
	return name
}

// ends has the same objects as postpoll.c: two connected queue pairs of one process. qp
// sends.
type ends struct {
	gid verbs.GIDEntry
	cq  *verbs.CQ
	mr  *verbs.MR
	qp  *verbs.QP
	sgl []verbs.SGE
	wrs []verbs.SendWR
	wcs []verbs.WC
}

func newEnds(t testing.TB, device string, batch int, path verbs.PostPath, memory int) *ends {
	t.Helper()
	dev, err := verbs.Open(device)
	closes(t, dev, err)
	table, err := dev.QueryGIDTable()
	must(t, err)
	e := &ends{wrs: make([]verbs.SendWR, batch), wcs: make([]verbs.WC, batch)}
	e.gid, _, err = verbs.ChooseGID(table, verbs.GIDSelection{})
	must(t, err)
	pd, err := dev.AllocPD()
	closes(t, pd, err)
	channel, err := dev.CreateCompChannel()
	closes(t, channel, err)
	e.cq, err = dev.CreateCQ(verbs.CQInit{Depth: batch, Channel: channel})
	closes(t, e.cq, err)
	e.mr, err = pd.AllocMR(memory, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	closes(t, e.mr, err)
	e.sgl = []verbs.SGE{e.mr.SGE(0, 8)}
	var pair [2]*verbs.QP
	for i := range pair {
		pair[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, PostPath: path,
			Cap: verbs.QPCap{MaxSendWR: uint32(batch), MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		closes(t, pair[i], err)
	}
	for i, qp := range pair {
		m := qpstate.NewMachine(verbs.RC, qp, nil)
		must(t, m.ToInit(verbs.QPAttr{PortNum: 1, Access: verbs.AccessRemoteWrite}))
		must(t, m.ToRTR(verbs.QPAttr{PathMTU: qpstate.MTU1024, DestQPN: pair[1-i].QPN(), MaxDestRdAtomic: 1, MinRNRTimer: 12,
			AH: verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: e.gid.GID, SGIDIndex: uint8(e.gid.Index), HopLimit: 64}}}))
		must(t, m.ToRTS(verbs.QPAttr{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}))
	}
	e.qp = pair[0]
	return e
}

// poller gets completions: spin polls without waiting, wait calls CQ.Wait.
type poller func(e *ends) (int, error)

func spin(e *ends) (int, error) {
	n, err := e.cq.Poll(e.wcs)
	if n == 0 && err == nil {
		_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) // postpoll.c explains why
	}
	return n, err
}

func wait(e *ends) (int, error) { return e.cq.Wait(context.Background(), e.wcs) }

// round posts a batch and waits until all requests have completed. It allocates nothing.
func (e *ends) round(t testing.TB, get poller) (post, whole time.Duration) {
	began := time.Now()
	for i := range e.wrs {
		e.wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: e.sgl,
			RemoteAddr: e.mr.Addr() + 2048, RKey: e.mr.RKey()}
	}
	must(t, e.qp.PostSend(e.wrs))
	post = time.Since(began)
	for done := 0; done < len(e.wrs); {
		n, err := get(e)
		must(t, err)
		for i := range e.wcs[:n] {
			must(t, e.wcs[i].Err())
		}
		done += n
	}
	return post, time.Since(began)
}

// turn is the result of one turn of a program: the medians of its rounds in ns.
type turn struct {
	post, whole float64
	waits       float64 // average number of waits per round; C only
}

func (e *ends) turn(t testing.TB, get poller) turn {
	var posts, wholes [rounds]float64
	for i := range rounds {
		post, whole := e.round(t, get)
		posts[i], wholes[i] = float64(post), float64(whole)
	}
	return turn{post: median(posts[:]), whole: median(wholes[:])}
}

// compile builds the C program in testdata.
func compile(t testing.TB) (program string) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "postpoll")
	source := filepath.Join("testdata", "postpoll.c")
	if out, err := exec.Command("gcc", "-O2", "-Wall", "-o", program, source, "-libverbs").CombinedOutput(); err != nil {
		t.Fatalf("gcc %s: %v\n%s", source, err, out)
	}
	return program
}

// turnInC runs one turn of the C program. how is its argument WAIT.
func (e *ends) turnInC(t testing.TB, program, device, how string) (c turn) {
	t.Helper()
	out, err := exec.Command(program, device, fmt.Sprint(e.gid.Index), fmt.Sprint(len(e.wrs)), fmt.Sprint(rounds), how).CombinedOutput()
	if err == nil {
		_, err = fmt.Sscan(string(out), &c.post, &c.whole, &c.waits)
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", program, err, out)
	}
	return c
}

// alternate runs the programs in turns. Each program is first equally often.
func alternate(programs ...func() turn) [][]turn {
	turns := make([][]turn, len(programs))
	for i := range alternations {
		for j := range programs {
			p := (i + j) % len(programs)
			turns[p] = append(turns[p], programs[p]())
		}
	}
	return turns
}

func posts(t turn) float64  { return t.post }
func wholes(t turn) float64 { return t.whole }
func waits(t turn) float64  { return t.waits }

// each returns one value per turn.
func each(turns []turn, of func(turn) float64) (values []float64) {
	for _, t := range turns {
		values = append(values, of(t))
	}
	return values
}

// report reports the ratio of two programs: the ratio of the medians, and the quartiles of
// the ratios of the turns.
func report(b *testing.B, name string, x, y []turn, of func(turn) float64) {
	first, second := each(x, of), each(y, of)
	b.ReportMetric(median(first)/median(second), name)
	ratios := make([]float64, len(first))
	for i := range ratios {
		ratios[i] = first[i] / second[i]
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/4], name+"-q1")
	b.ReportMetric(ratios[len(ratios)*3/4], name+"-q3")
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

func closes(t testing.TB, object interface{ Close() error }, err error) {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { must(t, object.Close()) })
}
