// What the job "bulk" measures: bytes and completions as they come, stalls, one row per
// interval for --csv, the progress bar, and the sum at the end.

package bulk

import (
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/rc"
)

const (
	// stallLimit is the longest time without a completion that is not a stall.
	stallLimit = 200 * time.Millisecond
	// interval is how often a row is written and the bar moved.
	interval = 100 * time.Millisecond
)

// waitingFor says what an end waits for, which hints at the cause of a stall.
type waitingFor int32

const (
	forNothing waitingFor = iota // it makes or checks data
	forAcknowledgement
	forCredit
	forData
)

// hint is a possible cause of a stall.
func (w waitingFor) hint() string {
	switch w {
	case forNothing:
		return "this end's program was busy with the data of its chunks: is its host busy, or --chunk too large for it?"
	case forCredit:
		return "all requests were acknowledged, and the peer's program gave no credit: is it stopped, or its host busy?"
	case forData:
		return "the peer sent nothing: is it stopped, or its host busy? If it waits for acknowledgements, packets are lost"
	}
	t := rc.DefaultTiming()
	return fmt.Sprintf("requests were posted and not acknowledged: lost packets are sent again after %v (TIMEOUT %d), a peer without a receive posted answers RNR NAK and has %v (MIN_RNR_TIMER %d; 0 would be %v), a stopped or busy host does not answer; a capture tells: packets that repeat, AETH with RNR NAK, or silence",
		qpstate.ACKTimeout(t.Timeout), t.Timeout, qpstate.RNRTimer(t.MinRNRTimer), t.MinRNRTimer, qpstate.RNRTimer(0))
}

// meter counts what the goroutine that moves the data reports. Another goroutine shows
// the counts meanwhile.
type meter struct {
	csv      *os.File  // nil writes no rows
	progress io.Writer // nil shows no bar

	log   *slog.Logger
	total int64 // bytes
	began time.Time
	took  time.Duration

	bytes, completions, stalls atomic.Int64
	moved                      atomic.Int64 // nanoseconds from began to the last completion
	waiting                    atomic.Int32 // a waitingFor

	stalled, longest time.Duration // of all stalls; used only by the goroutine that moves the data
	longestWait      waitingFor
}

// waits notes what the goroutine that moves the data is going to wait for.
func (m *meter) waits(w waitingFor) { m.waiting.Store(int32(w)) }

// add counts completions. If they are late, it also counts a stall.
func (m *meter) add(bytes int64, completions int) {
	now := time.Since(m.began)
	if gap := now - time.Duration(m.moved.Load()); gap > stallLimit {
		m.stalls.Add(1)
		m.stalled += gap
		if gap > m.longest {
			m.longest, m.longestWait = gap, waitingFor(m.waiting.Load())
		}
	}
	m.waits(forNothing)
	m.moved.Store(int64(now))
	m.bytes.Add(bytes)
	m.completions.Add(int64(completions))
}

// start begins to measure. If a row cannot be written, the context ends with the error as its
// cause. stop ends the measurement and returns the same error.
func (m *meter) start(ctx context.Context, log *slog.Logger, total int64) (moving context.Context, stop func() error) {
	m.log, m.total, m.began = log, total, time.Now()
	moving, cancel := context.WithCancelCause(ctx)
	show := &showing{meter: m, end: make(chan struct{}), hint: map[waitingFor]bool{}}
	show.over.Go(func() {
		if err := show.run(); err != nil {
			show.err = fmt.Errorf("--csv: %w; try: a file on a disk with free space, or run without --csv", err)
			cancel(show.err)
		}
	})
	return moving, func() error {
		m.took = time.Since(m.began)
		close(show.end)
		show.over.Wait()
		cancel(nil)
		return show.err
	}
}

// report logs the result.
func (m *meter) report(sum string) {
	bytes := m.bytes.Load()
	event.BulkDone.Log(m.log, fmt.Sprintf("SUCCESS, the data of both ends are the same: %.1f MiB/s", mibps(bytes, m.took)),
		slog.Int64("bytes", bytes), slog.Duration("took", m.took.Round(time.Microsecond)), slog.Float64("mib_per_s", kit.Rounded(mibps(bytes, m.took))),
		slog.Int64("completions", m.completions.Load()), slog.Int64("stalls", m.stalls.Load()), slog.String("sum", sum))
	if n := m.stalls.Load(); n > 0 {
		event.BulkStalled.LogAt(slog.LevelWarn, m.log, fmt.Sprintf("%d times nothing completed for over %v", n, stallLimit),
			slog.Int64("stalls", n), slog.Duration("stalled", m.stalled.Round(time.Millisecond)), slog.Duration("longest", m.longest.Round(time.Millisecond)),
			slog.String("hint", m.longestWait.hint()))
	}
}

func mibps(bytes int64, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(bytes) / (1 << 20) / took.Seconds()
}

// showing writes the rows and moves the bar while the data moves.
type showing struct {
	*meter
	end  chan struct{} // closed to stop it
	over sync.WaitGroup
	err  error // to be read when it is over

	rows  *csv.Writer
	last  sample
	begun int64               // number of stalls whose beginning was logged
	hint  map[waitingFor]bool // hints that were logged
}

// sample has the counts at one time.
type sample struct {
	at                         time.Duration // since the beginning
	bytes, completions, stalls int64
}

// csvHeader names the columns of --csv. Each row is about the interval that ends at its time.
// The rows' bytes, completions and stalls add up to the job's totals.
var csvHeader = []string{
	"seconds",     // from the beginning to the interval's end
	"bytes",       // moved in the interval
	"mib_per_s",   // in the interval
	"completions", // in the interval
	"stalls",      // that ended in the interval
}

func (s *showing) run() (err error) {
	if s.csv != nil {
		defer kit.CloseAll(&err, s.csv)
		if err := empty(s.csv); err != nil {
			return err
		}
		s.rows = csv.NewWriter(s.csv)
		if err := s.write(csvHeader); err != nil {
			return err
		}
	}
	move := kit.ProgressBar(s.progress, s.total)
	defer move(-1)
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			move(s.bytes.Load())
			s.logStall()
			if err := s.row(time.Since(s.began)); err != nil {
				return err
			}
		case <-s.end:
			move(s.bytes.Load())
			return s.row(s.took)
		}
	}
}

// empty truncates a regular file that an earlier run has written.
func empty(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	return file.Truncate(0)
}

// row writes the counts since the last row.
func (s *showing) row(at time.Duration) error {
	if s.rows == nil {
		return nil
	}
	now := sample{max(at, s.last.at), s.bytes.Load(), s.completions.Load(), s.stalls.Load()}
	then := s.last
	s.last = now
	return s.write([]string{
		strconv.FormatFloat(now.at.Seconds(), 'f', 3, 64),
		strconv.FormatInt(now.bytes-then.bytes, 10),
		strconv.FormatFloat(mibps(now.bytes-then.bytes, now.at-then.at), 'f', 3, 64),
		strconv.FormatInt(now.completions-then.completions, 10),
		strconv.FormatInt(now.stalls-then.stalls, 10),
	})
}

// write writes a row and flushes it, so that readers of the file see the row and a full
// disk is reported at once.
func (s *showing) write(row []string) error {
	if err := s.rows.Write(row); err != nil {
		return err
	}
	s.rows.Flush()
	return s.rows.Error()
}

// logStall logs a stall that still lasts, once per stall. With the first stall of a kind it
// also logs a possible cause.
func (s *showing) logStall() {
	gap := time.Since(s.began) - time.Duration(s.moved.Load())
	if number := s.stalls.Load() + 1; gap > stallLimit && number > s.begun {
		attrs := []slog.Attr{slog.Int64("bytes", s.bytes.Load())}
		if w := waitingFor(s.waiting.Load()); !s.hint[w] {
			s.hint[w] = true
			attrs = append(attrs, slog.String("hint", w.hint()))
		}
		s.begun = number
		event.BulkStall.LogAt(slog.LevelWarn, s.log, fmt.Sprintf("nothing has completed for over %v", stallLimit), attrs...)
	}
}
