// The exchange over TCP with a foreign program. A message is raw bytes in one write.

package peer

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/oob"
)

// TCP sends and receives the messages of a foreign program, and logs them like the native
// messages.
type TCP struct {
	log  *slog.Logger
	conn *oob.Conn
}

// NewTCP returns the TCP of a connection.
func NewTCP(log *slog.Logger, conn *oob.Conn) TCP { return TCP{log, conn} }

// Send sends data in one write. Errors name the message by what.
func (r TCP) Send(ctx context.Context, what string, data []byte) error {
	if err := r.conn.WriteAll(ctx, what, data); err != nil {
		return err
	}
	r.Log(true, what, len(data))
	return nil
}

// Receive reads n bytes.
func (r TCP) Receive(ctx context.Context, what string, n int) ([]byte, error) {
	data := make([]byte, n)
	if _, err := r.conn.ReadFull(ctx, what, data); err != nil {
		return nil, err
	}
	r.Log(false, what, n)
	return data, nil
}

// Swap sends mine, and then reads as many bytes. Both ends of some programs do this.
func (r TCP) Swap(ctx context.Context, what string, mine []byte) ([]byte, error) {
	if err := r.Send(ctx, what, mine); err != nil {
		return nil, err
	}
	return r.Receive(ctx, what, len(mine))
}

// unlimited replaces the time limit of the exchange while a job runs: a job has only
// the limit on standing still.
const unlimited = 1000 * time.Hour

// ReceiveAhead starts to read the next n bytes in the background. The job runs
// meanwhile under the context until, which ends if the peer leaves: a wait for RDMA
// would not notice that. received waits for the bytes and returns them.
func (r TCP) ReceiveAhead(ctx context.Context, what string, n int) (until context.Context, received func() ([]byte, error)) {
	until, leave := context.WithCancelCause(ctx)
	reading, stop := context.WithTimeout(ctx, unlimited)
	var data []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		if data, err = r.Receive(reading, what, n); err != nil {
			leave(err)
		}
	}()
	return until, func() ([]byte, error) {
		<-done
		return data, err
	}
}

// Log logs a message that was sent or received.
func (r TCP) Log(sent bool, what string, bytes int) {
	verb := "received "
	if sent {
		verb = "sent "
	}
	event.TCPMessage.Log(r.log, verb+what, slog.Bool("sent", sent), slog.String("message", what), slog.String("name", ""),
		slog.Int("bytes", bytes), slog.String("peer", r.conn.RemoteAddr().String()))
}

// Complete returns the peer's endpoint: the LID, QPN, PSN and GID of received, and for
// what the program does not exchange (the path MTU, the READs in flight, the queue key)
// the values of this end.
func Complete(local, received oob.Endpoint) oob.Endpoint {
	local.LID, local.QPN, local.PSN, local.GID = received.LID, received.QPN, received.PSN, received.GID
	return local
}

// Text returns the text in a C program's buffer, up to its NUL.
func Text(data []byte) string {
	text, _, _ := strings.Cut(string(data), "\x00")
	return text
}
