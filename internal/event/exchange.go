// Logging the messages over TCP.

package event

import (
	"fmt"
	"log/slog"

	"github.com/rawverbs/rawverbs/oob"
)

// LastBarrier is the name of the barrier that ends a connection. Notes after it are a farewell.
const LastBarrier = "done"

// Stopped is the step that an end reports to its peer if its program was stopped. The peer may try again later.
const Stopped = "stopped"

// Exchange returns an observer that logs the messages of one connection over TCP, with the time
// at which each was sent or had arrived. The notes of a farewell are about the run and not a part
// of it: they have the level [LevelWaits].
func Exchange(log *slog.Logger) oob.Observer {
	var sentLast, receivedLast bool
	return func(m oob.Event) {
		text, last := "received ", &receivedLast
		if m.Sent {
			text, last = "sent ", &sentLast
		}
		text += m.Type.String()
		if m.Name != "" {
			text += fmt.Sprintf(" %q", m.Name)
		}
		level := slog.LevelInfo
		if *last && m.Type == oob.TypeNote {
			level = LevelWaits
		}
		*last = *last || m.Type == oob.TypeBarrier && m.Name == LastBarrier
		TCPMessage.LogPast(m.Time, level, log, text,
			slog.Bool("sent", m.Sent), slog.String("message", m.Type.String()), slog.String("name", m.Name),
			slog.Int("bytes", m.Size), slog.String("peer", m.Peer))
	}
}

// Arrival is Exchange for a connection that any stranger may have made, and to which this end speaks first. It logs
// nothing until the peer's first message, so a stranger that sends none costs no line. It calls arrived, if it is not
// nil, before it logs.
func Arrival(log *slog.Logger, arrived func()) oob.Observer {
	exchange := Exchange(log)
	var sent []oob.Event // before the peer's first message
	silent := true
	return func(m oob.Event) {
		if silent && m.Sent {
			sent = append(sent, m)
			return
		}
		if silent {
			silent = false
			if arrived != nil {
				arrived()
			}
			for _, earlier := range sent {
				exchange(earlier)
			}
		}
		exchange(m)
	}
}
