// Mistakes at the end of a connection.

package mistake

import (
	"github.com/rawverbs/rawverbs/qpstate"
	"github.com/rawverbs/rawverbs/verbs"
)

var ends = []Mistake{
	{
		Name:  "early-disconnect",
		Title: "the server disconnects before it answers",
		Setting: "Both ends post a receive. The client sends a message and waits for the server's greeting. " +
			"The server's program should send the greeting when the connection is established, but its handler for this event is commented out. " +
			"So it receives the client's message and disconnects. At a disconnect both programs move their queue pair to ERR, as rdma_disconnect does.",
		Question: "Which of the client's requests fail, with which status? Is it right that its completion handler returns at the first status that is not 0?",
		Why: "None of the client's requests failed. WR_FLUSH_ERR says that the queue pair was in ERR before the receive got a message. " +
			"The cause lies before the first flush: the server disconnected, because it never sent the greeting. " +
			"A handler that returns silently at status 5 hides exactly this: the program looks finished, and the greeting is missing.",
		Remedy: "Ask at WR_FLUSH_ERR what moved the queue pair to ERR: the first status that is not 5, an asynchronous event, or a disconnect. " +
			"Then ask the peer's log why. Disconnect only after both ends have said that they are done (a barrier over TCP).",
		Expect: expect{Client: outcome(qpstate.Error, verbs.WCSuccess, verbs.WCWRFlushErr),
			Server: outcome(qpstate.Error, verbs.WCSuccess)},
		run: func(b *bench) {
			b.connect(0)
			b.client.recv(b.client.mr.SGE(1024, 64))
			b.server.recv(b.server.mr.SGE(0, 64))
			b.client.send(b.client.message(64), "")
			b.client.sent()
			b.server.received()
			b.server.modify(qpstate.RTS, qpstate.Error, 0) // instead of the greeting
			b.client.modify(qpstate.RTS, qpstate.Error, 0) // TCP has reported that the server left
			b.client.received()
		},
	},
}
