package e2e

import (
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/verbs"
)

func writeImmExercises() []exercise {
	run := func(name, text string, flags ...string) exercise {
		n := len(text)
		return exercise{
			name:   "write-imm, " + name,
			client: append([]string{"--job", "write-imm", "-s", text}, flags...),
			clientEvents: []wantEvent{
				wants("wr.posted", "msg", "post RDMA_WRITE_WITH_IMM", "bytes", n, "imm", n),
				wants("wr.completed", "opcode", "IBV_WC_RDMA_WRITE", "status", "IBV_WC_SUCCESS"),
				wants("text.written", "text", text, "imm", n),
			},
			serverEvents: []wantEvent{
				wants("wr.posted", "verb", "ibv_post_recv", "bytes", 0),
				wants("wr.completed", "opcode", "IBV_WC_RECV_RDMA_WITH_IMM", "byte_len", n, "imm", n),
				wants("message.received", "text", text, "bytes", n, "imm", n),
			},
		}
	}
	return []exercise{
		run("a text", "client-wrote-with-imm"),
		run("UTF-8", "grüße, 世界 🌍", "--size", "64"),
		run("nothing", ""),
		run("one byte", "x", "--size", "1"),
		run("many packets", strings.Repeat("0123456789abcdef", 6400), "--size", "1M"),
	}
}

// TestWriteImmLies runs a client whose immediate is not the length of its WRITE.
func TestWriteImmLies(t *testing.T) {
	noLeak(t)
	s := serve(t)
	cfg := muteConfig(t, openDevice(t))
	cfg.Job = "write-imm"
	conn, err := rc.Dial(testkit.Context(t), s.address(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Imm: 1 << 31, Flags: verbs.SendSignaled}}); err != nil {
		t.Fatal(err)
	}
	s.event("client.failed", "error", "the completion is IBV_WC_RECV of 0 bytes with the immediate 2147483648")
	conn.Close()
	s.client(t).succeeds() // not stillServes: this process has the device open too
	s.stops()
}
