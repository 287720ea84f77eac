// The progress bar of jobs that move much data.

package kit

import (
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// barInterval is how often the bar is drawn.
const barInterval = 100 * time.Millisecond

// ProgressBar shows a bar for total bytes on a terminal, unless terminal is nil. The
// function that it returns moves the bar; -1 removes it.
func ProgressBar(terminal io.Writer, total int64) (move func(bytes int64)) {
	if terminal == nil {
		return func(int64) {}
	}
	all := mpb.New(mpb.WithOutput(terminal), mpb.WithWidth(60), mpb.WithAutoRefresh(), mpb.WithRefreshRate(barInterval))
	bar := all.AddBar(total, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.CountersKibiByte("% .1f / % .1f ")),
		mpb.AppendDecorators(decor.Percentage(), decor.AverageSpeed(decor.SizeB1024(0), "  % .1f"), decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8})))
	return func(bytes int64) {
		if bytes >= 0 {
			bar.SetCurrent(bytes)
			return
		}
		bar.Abort(true)
		all.Wait()
	}
}
