// Connections that begin no job, and why.

package run

import (
	"context"
	"io"
	"net"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/oob"
)

// Refusal is why a connection began no job.
type Refusal int

// The reasons.
const (
	RefusedClosed   Refusal = iota // it ended before its hello, as those of probes and port scanners do
	RefusedSilent                  // it sent no hello in time, or while too many others did not either
	RefusedProtocol                // its first bytes are neither a hello of this protocol and version nor, with --tls, of TLS
	RefusedTLS                     // it is a client without TLS, the handshake failed, or --tls-allow lacks its name
	RefusedJob                     // the server does not do the job that it asked for
	RefusedClients                 // no place was free
	RefusedMemory                  // no memory of the budget was free
	RefusedStopping                // the server stopped before the client got its place
	numRefusals
)

func (r Refusal) String() string {
	return [...]string{"closed", "silent", "protocol", "tls", "job", "clients", "memory", "stopping"}[r]
}

// jobless is the error of a connection that began no job: stopping the server did not cut
// a job short.
type jobless struct {
	error
	why Refusal
}

func (j jobless) Unwrap() error { return j.error }

// joblessIfStranger returns the error of a failed connection. It makes it jobless if there was no client.
func (o *ServerOptions) joblessIfStranger(ctx context.Context, err error) error {
	if oob.Stranger(err) {
		return o.noHello(ctx, err)
	}
	return err
}

// noHello makes the error of a connection whose hello did not come jobless. ctx is the one that the server waited with.
func (o *ServerOptions) noHello(ctx context.Context, err error) error {
	var remote *net.OpError
	switch {
	case errors.As(err, &remote) && remote.Op == "remote error": // an alert of TLS
		return jobless{err, RefusedTLS}
	case errors.As(err, new(*oob.ProtocolError)), secure.Foreign(err):
		return jobless{err, RefusedProtocol}
	case errors.As(err, new(*oob.TimeoutError)), errors.Is(context.Cause(ctx), admission.ErrCrowded):
		return jobless{err, RefusedSilent}
	case errors.Is(err, context.Canceled):
		return jobless{err, RefusedStopping}
	case errors.As(err, new(*oob.ClosedError)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*oob.PeerError)), errors.Is(err, syscall.ECONNRESET), o.TLS == "":
		return jobless{err, RefusedClosed}
	}
	return jobless{err, RefusedTLS}
}
