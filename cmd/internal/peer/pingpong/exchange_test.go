package pingpong

import (
	"io"
	"maps"
	"net"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/peer/peertest"
	"github.com/rawverbs/rawverbs/internal/testkit"
)

// TestStrangers connects both ends to other programs, and to C programs that end early or that are of another kind.
func TestStrangers(t *testing.T) {
	strangers := maps.Clone(peertest.Strangers)
	strangers[pingpongGolden[:40]] = "after 28 of "
	strangers[pingpongNone] = "queue pair number is 0"
	peertest.Meet(t, Peer.Jobs[0], strangers)
	t.Run("srq", func(t *testing.T) {
		peertest.Meet(t, Peer.Jobs[3], map[string]string{pingpongGolden: "the peer sent one line", strings.Repeat(pingpongGolden, 256): "256 of the 256 lines"})
	})
}

// TestNoDone: a server gets another program's line, and then no "done".
func TestNoDone(t *testing.T) {
	line := strings.Replace(pingpongGolden, "0a630001", "7f000009", 1)
	for then, want := range map[string]string{"": `waiting for "done"`, "gone\x00": "not the client's last message", line: "as ibv_srq_pingpong does"} {
		e, _ := peertest.NewEnd(t, Peer.Jobs[0], false)
		err := peertest.Against(t.Context(), t, e, false, testkit.Limit, func(c net.Conn) {
			defer c.Close()
			io.WriteString(c, line+then)
			c.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, c)
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", then, err, want)
		}
	}
}
