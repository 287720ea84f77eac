package e2e

import (
	"slices"
	"testing"
)

// formatExercises are the jobs of the formats that are other programs', with this
// program at both ends. They have no record: a format has no room for it.
func formatExercises() []exercise {
	run := func(name string, flags ...string) exercise {
		return exercise{name: name, server: flags, client: flags}
	}
	e := []exercise{run("rc-example", "--peer", "rc-example"), run("rc-example, long", "--peer", "rc-example", "--size", "64"),
		run("rocev2-learn", "--peer", "rocev2-learn", "-s", "grüße, 世界", "--size", "30", "--mtu", "256"),
		{name: "rocev2-learn, later", server: []string{"--peer", "rocev2-learn"}, client: []string{"--peer", "rocev2-learn", "--qps", "4"}}}
	e[0].clientTells = []telling{
		says("qp.transition", "msg", "RTR→RTS"), says("oob.message", "message", "sync 'Q'"),
		says("message.received", "msg", "message from the server", "text", "SEND operation", "bytes", 16),
		says("wr.completed", "opcode", "IBV_WC_RDMA_READ", "byte_len", 16), says("message.received", "text", "RDMA read opera"),
		says("wr.completed", "opcode", "IBV_WC_RDMA_WRITE")}
	e[0].serverTells = []telling{says("wr.completed", "opcode", "IBV_WC_SEND"), says("message.received", "text", "RDMA write oper")}
	e[1].clientTells = []telling{says("message.received", "text", "SEND operation", "bytes", 64), says("message.received", "text", "RDMA read operation", "bytes", 64)}
	e[1].serverTells = []telling{says("message.received", "text", "RDMA write operation")}
	e[2].clientTells = []telling{says("oob.message", "message", "ready", "bytes", 1), says("message.sent", "bytes", 16), says("message.received", "text", "grüße, 世界", "bytes", 30)}
	e[2].serverTells = []telling{says("message.received", "text", "grüße, 世界", "bytes", 16), says("message.sent", "bytes", 30)}
	e[3].clientTells = slices.Repeat([]telling{says("message.received", "text", "hello from the server", "bytes", 4096)}, 4)
	e[3].serverTells = slices.Repeat([]telling{says("message.received", "text", "hello from the client", "bytes", 22)}, 4)
	return slices.Concat(e, pingpongExercises())
}

func TestOtherFormats(t *testing.T) {
	noLeak(t)
	for _, e := range formatExercises() {
		t.Run(e.name, func(t *testing.T) {
			s := serve(t, append([]string{"--once"}, e.server...)...)
			c := s.client(t, e.client...)
			c.succeeds()
			s.succeeds()
			e.check(t, c, s.process)
			for _, p := range []*process{c, s.process} {
				checkTransitions(t, p)
			}
		})
	}
}
