// The list of all jobs and of all kinds of programs at the other end. A new job or a
// new program is one line here, and a folder of its own.

package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rawverbs/rawverbs/cmd/internal/job/atomic"
	"github.com/rawverbs/rawverbs/cmd/internal/job/bench"
	"github.com/rawverbs/rawverbs/cmd/internal/job/bulk"
	"github.com/rawverbs/rawverbs/cmd/internal/job/exchange"
	"github.com/rawverbs/rawverbs/cmd/internal/job/file"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/job/netconn"
	"github.com/rawverbs/rawverbs/cmd/internal/job/send"
	"github.com/rawverbs/rawverbs/cmd/internal/job/write"
	"github.com/rawverbs/rawverbs/cmd/internal/peer/perftest"
	"github.com/rawverbs/rawverbs/cmd/internal/peer/pingpong"
	"github.com/rawverbs/rawverbs/cmd/internal/peer/rcexample"
	"github.com/rawverbs/rawverbs/cmd/internal/peer/rocev2learn"
	"github.com/rawverbs/rawverbs/cmd/internal/usage"
	"github.com/rawverbs/rawverbs/oob"
)

// jobs are the jobs between rdma_client and rdma_server, in the order to learn them in.
var jobs = slices.Concat(
	send.Jobs,
	write.Jobs,
	exchange.Jobs,
	atomic.Jobs,
	bulk.Jobs,
	file.Jobs,
	netconn.Jobs,
	bench.Jobs,
)

// peers are the kinds of programs at the other end. The first is the default.
var peers = []kit.Peer{
	{Name: native, About: "rdma_server and rdma_client: the client chooses the job", Port: oob.DefaultPort, Jobs: jobs},
	rcexample.Peer,
	rocev2learn.Peer,
	pingpong.Peer,
	perftest.Peer,
}

// native is the peer with which the native protocol is spoken.
const native = "native"

// PeerNames are the names of all peers, the native one first.
func PeerNames() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.Name)
	}
	return names
}

// JobNames are the names of the native jobs, in the order to learn them in.
func JobNames() []string { return jobs.Names() }

// findPeer looks a peer up by name. The error lists the names.
func findPeer(name string) (kit.Peer, error) {
	i := slices.IndexFunc(peers, func(p kit.Peer) bool { return p.Name == name })
	if i < 0 {
		return kit.Peer{}, usage.Errorf("--peer: there is no program %q; try: %s", name, strings.Join(PeerNames(), ", "))
	}
	return peers[i], nil
}

// Describe lists all jobs and peers, one line each.
func Describe() string {
	var list strings.Builder
	list.WriteString("Jobs with rdma_server, the default first:\n\n")
	describe(&list, jobs)
	list.WriteString("\nOther programs, and their jobs:\n")
	for _, p := range peers[1:] {
		fmt.Fprintf(&list, "\n--peer %s: %s\n\n", p.Name, p.About)
		describe(&list, p.Jobs)
	}
	return list.String()
}

func describe(to *strings.Builder, jobs kit.List) {
	for _, t := range jobs {
		fmt.Fprintf(to, "  %-17s %s\n", t.Name, t.About)
	}
}
