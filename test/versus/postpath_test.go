//go:build rdma

package versus

import (
	"fmt"
	"os"
	"testing"

	"github.com/rawverbs/rawverbs/verbs"
)

// The two ways to post a send, in turns with each other: the medians of the turns'
// medians, and the builder's by the classic's.
func BenchmarkPostPath(b *testing.B) {
	device := os.Getenv("RDMA_TEST_DEVICE")
	for _, batch := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			classic, builder := newEnds(b, device, batch, verbs.PostClassic), newEnds(b, device, batch, verbs.PostBuilder)
			var posts, wholes [2][]float64
			for range b.N {
				posts, wholes = [2][]float64{}, [2][]float64{}
				for range alternations {
					for i, e := range []*ends{classic, builder} {
						post, whole := e.turn(b)
						posts[i], wholes[i] = append(posts[i], post), append(wholes[i], whole)
					}
				}
			}
			b.ReportMetric(median(posts[1])/median(posts[0]), "post-builder/classic")
			b.ReportMetric(median(wholes[1])/median(wholes[0]), "post+poll-builder/classic")
			b.ReportMetric(median(posts[0])/float64(batch), "ns/WR-classic")
			b.ReportMetric(median(posts[1])/float64(batch), "ns/WR-builder")
			b.ReportMetric(0, "ns/op")
		})
	}
}
