// Tests of how long a posting goroutine sends.

package softroce_test

import (
	"testing"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// TestPostIsBounded posts UC WRITEs of 64 MiB, which no window limits. The posting goroutine sends only
// its part of them.
func TestPostIsBounded(t *testing.T) {
	const size, messages = 4 << 20, 16
	x, y := openSoft(t, "soft0"), openSoft(t, "soft0")
	softroce.WithoutRoom(x)
	c, s := connect(t, x, y, rc.Config{Type: verbs.UC, Cap: verbs.QPCap{MaxSendWR: messages}})
	from, err := c.AllocMR("from", size, all)
	if err != nil {
		t.Fatal(err)
	}
	to, err := s.AllocMR("to", size, all)
	if err != nil {
		t.Fatal(err)
	}
	wr := verbs.SendWR{Opcode: verbs.OpRDMAWrite, SGL: []verbs.SGE{from.SGE(0, size)}, RemoteAddr: to.Addr(), RKey: to.RKey()}
	bytes, rest := softroce.SentByPoster(x, func() {
		for range messages {
			if err := c.QP().PostSend([]verbs.SendWR{wr}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if bytes == 0 || bytes > softroce.MostPerPost || !rest {
		t.Errorf("the posting goroutine sent %d bytes of %d itself, want at most %d; it leaves the rest: %v", bytes, messages*size, softroce.MostPerPost, rest)
	}
}
