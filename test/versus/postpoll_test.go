//go:build rdma

package versus

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	rounds       = 400 // of each turn
	alternations = 7   // turns of each language
)

// Posting a batch and polling it, in turns with postpoll.c: the medians of the
// turns' medians, and Go's by C's.
func BenchmarkPostPoll(b *testing.B) {
	inC := compile(b, filepath.Join("testdata", "postpoll.c"))
	device := os.Getenv("RDMA_TEST_DEVICE")
	for _, batch := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			e := newEnds(b, device, batch, verbs.PostAuto)
			var goPost, goWhole, cPost, cWhole []float64
			for range b.N {
				goPost, goWhole, cPost, cWhole = nil, nil, nil, nil
				for range alternations {
					post, whole := e.turn(b)
					goPost, goWhole = append(goPost, post), append(goWhole, whole)
					post, whole = cTurn(b, inC, device, e.gid.Index, batch)
					cPost, cWhole = append(cPost, post), append(cWhole, whole)
				}
			}
			b.ReportMetric(median(goPost)/median(cPost), "post-Go/C")
			b.ReportMetric(median(goWhole)/median(cWhole), "post+poll-Go/C")
			b.ReportMetric(median(goWhole)/float64(batch), "ns/WR-Go")
			b.ReportMetric(median(cWhole)/float64(batch), "ns/WR-C")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// compile makes a C program of testdata.
func compile(b *testing.B, source string) (program string) {
	b.Helper()
	program = filepath.Join(b.TempDir(), "program")
	if out, err := exec.Command("gcc", "-O2", "-o", program, source, "-libverbs").CombinedOutput(); err != nil {
		b.Fatalf("gcc %s: %v\n%s", source, err, out)
	}
	return program
}

func cTurn(b *testing.B, program, device string, gidIndex, batch int) (post, whole float64) {
	b.Helper()
	out, err := exec.Command(program, device, fmt.Sprint(gidIndex), fmt.Sprint(batch), fmt.Sprint(rounds)).CombinedOutput()
	if err == nil {
		_, err = fmt.Sscan(string(out), &post, &whole)
	}
	if err != nil {
		b.Fatalf("%s: %v: %s", program, err, out)
	}
	return post, whole
}

// ends is what postpoll.c sets up.
type ends struct {
	gid    verbs.GIDEntry
	cq     *verbs.CQ
	mr     *verbs.MR
	qp     *verbs.QP
	wrs    []verbs.SendWR
	wcs    []verbs.WC
	posts  []float64
	wholes []float64
}

func newEnds(b *testing.B, device string, batch int, path verbs.PostPath) *ends {
	b.Helper()
	dev, err := verbs.Open(device)
	closes(b, dev, err)
	table, err := dev.QueryGIDTable()
	must(b, err)
	e := &ends{wrs: make([]verbs.SendWR, batch), wcs: make([]verbs.WC, batch)}
	e.gid, _, err = verbs.ChooseGID(table, verbs.GIDWish{Port: 1, Automatic: true})
	must(b, err)
	pd, err := dev.AllocPD()
	closes(b, pd, err)
	e.cq, err = dev.CreateCQ(verbs.CQInit{Depth: batch})
	closes(b, e.cq, err)
	e.mr, err = pd.AllocMR(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	closes(b, e.mr, err)
	var pair [2]*verbs.QP
	for i := range pair {
		pair[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.cq, RecvCQ: e.cq, PostPath: path,
			Cap: verbs.QPCap{MaxSendWR: uint32(batch), MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1}})
		closes(b, pair[i], err)
	}
	for i, qp := range pair {
		m := qpstate.NewMachine(verbs.RC, qp, nil)
		must(b, m.ToInit(verbs.QPAttr{PortNum: 1, Access: verbs.AccessRemoteWrite}))
		must(b, m.ToRTR(verbs.QPAttr{PathMTU: qpstate.MTU1024, DestQPN: pair[1-i].QPN(), MaxDestRdAtomic: 1, MinRNRTimer: 12,
			AH: verbs.AHAttr{IsGlobal: true, PortNum: 1, GRH: verbs.GRH{DGID: e.gid.GID, SGIDIndex: uint8(e.gid.Index), HopLimit: 64}}}))
		must(b, m.ToRTS(verbs.QPAttr{Timeout: 14, RetryCnt: 7, RNRRetry: 7, MaxRdAtomic: 1}))
	}
	e.qp = pair[0]
	return e
}

// turn does the rounds, and gives the medians of the post and of the whole, in ns.
func (e *ends) turn(b *testing.B) (post, whole float64) {
	sgl := []verbs.SGE{e.mr.SGE(0, 8)}
	e.posts, e.wholes = e.posts[:0], e.wholes[:0]
	for range rounds {
		began := time.Now()
		for i := range e.wrs {
			e.wrs[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sgl,
				RemoteAddr: e.mr.Addr() + 2048, RKey: e.mr.RKey()}
		}
		must(b, e.qp.PostSend(e.wrs))
		posted := time.Since(began)
		for done := 0; done < len(e.wrs); {
			n, err := e.cq.Poll(e.wcs)
			must(b, err)
			for i := range e.wcs[:n] {
				must(b, e.wcs[i].Err())
			}
			done += n
		}
		e.posts, e.wholes = append(e.posts, float64(posted)), append(e.wholes, float64(time.Since(began)))
	}
	return median(e.posts), median(e.wholes)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func closes(b *testing.B, object interface{ Close() error }, err error) {
	b.Helper()
	must(b, err)
	b.Cleanup(func() { must(b, object.Close()) })
}
