package e2e

import (
	"slices"
	"testing"
)

// formatExercises returns the jobs of other programs' formats, with this program at both
// ends. They have no record, because these formats cannot carry it.
func formatExercises() []exercise {
	run := func(name string, flags ...string) exercise {
		return exercise{name: name, server: flags, client: flags}
	}
	e := []exercise{run("rc-example", "--peer", "rc-example"), run("rc-example, long", "--peer", "rc-example", "--size", "64"),
		run("rocev2-learn", "--peer", "rocev2-learn", "-s", "grüße, 世界", "--size", "30", "--mtu", "256"),
		{name: "rocev2-learn, later", server: []string{"--peer", "rocev2-learn"}, client: []string{"--peer", "rocev2-learn", "--qps", "4"}}}
	e[0].clientEvents = []wantEvent{
		wants("qp.transition", "msg", "RTR→RTS"), wants("oob.message", "message", "sync 'Q'"),
		wants("message.received", "msg", "message from the server", "text", "SEND operation", "bytes", 16),
		wants("wr.completed", "opcode", "IBV_WC_RDMA_READ", "byte_len", 16), wants("message.received", "text", "RDMA read opera"),
		wants("wr.completed", "opcode", "IBV_WC_RDMA_WRITE")}
	e[0].serverEvents = []wantEvent{wants("wr.completed", "opcode", "IBV_WC_SEND"), wants("message.received", "text", "RDMA write oper")}
	e[1].clientEvents = []wantEvent{wants("message.received", "text", "SEND operation", "bytes", 64), wants("message.received", "text", "RDMA read operation", "bytes", 64)}
	e[1].serverEvents = []wantEvent{wants("message.received", "text", "RDMA write operation")}
	e[2].clientEvents = []wantEvent{wants("oob.message", "message", "ready", "bytes", 1), wants("message.sent", "bytes", 16), wants("message.received", "text", "grüße, 世界", "bytes", 30)}
	e[2].serverEvents = []wantEvent{wants("message.received", "text", "grüße, 世界", "bytes", 16), wants("message.sent", "bytes", 30)}
	e[3].clientEvents = slices.Repeat([]wantEvent{wants("message.received", "text", "hello from the server", "bytes", 4096)}, 4)
	e[3].serverEvents = slices.Repeat([]wantEvent{wants("message.received", "text", "hello from the client", "bytes", 22)}, 4)
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
