// Package secure makes the exchange of two ends a TLS connection: it reads and checks the directory with a
// certificate, makes the handshakes, and says what their errors mean.
package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// tlsError reports a handshake that failed, or a certificate that the peer refused.
type tlsError struct {
	Peer    string // the peer's address
	Problem string // what is wrong, with the remedy
	Err     error  // the error of crypto/tls, or one that wraps it
}

// Error names the peer, the problem and the remedy.
func (e *tlsError) Error() string { return "TLS with " + e.Peer + ": " + e.Problem }

// Unwrap returns Err.
func (e *tlsError) Unwrap() error { return e.Err }

// Dial makes the client's handshake, if cfg is not nil. After an error it closes the connection.
// The server may still refuse the certificate: the first message from there then fails.
func Dial(ctx context.Context, tcp *oob.Conn, cfg *tls.Config, address string) error {
	if cfg == nil {
		return nil
	}
	if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(address) // oob.Dial has checked it
	}
	err := tcp.Wrap(ctx, func(ctx context.Context, nc net.Conn) (net.Conn, error) {
		c := tls.Client(nc, cfg)
		return c, c.HandshakeContext(ctx)
	})
	return failedTLS(tcp, err, "server", cfg.ServerName)
}

// Serve makes the server's handshake, if cfg is not nil, and returns the client's certificate, or nil if
// the client need not show one. After an error it closes the connection. A client without TLS gets the
// reason in the plain protocol.
func Serve(ctx context.Context, tcp *oob.Conn, cfg *tls.Config) (client *x509.Certificate, err error) {
	if cfg == nil {
		return nil, nil
	}
	err = tcp.Wrap(ctx, func(ctx context.Context, nc net.Conn) (net.Conn, error) {
		c := tls.Server(nc, cfg)
		err := c.HandshakeContext(ctx)
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && isPlain(plain) {
			_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = nc.Write(oob.AppendError(nil, &oob.PeerError{Step: "hello", Message: "the server takes only TLS; try: --tls DIR at the client"}))
		}
		if shown := c.ConnectionState().PeerCertificates; err == nil && len(shown) > 0 {
			client = shown[0] // after an error the client may have shown another's
		}
		return c, err
	})
	return client, failedTLS(tcp, err, "client", "")
}

// isPlain reports whether the peer began with a message of the native protocol.
func isPlain(e tls.RecordHeaderError) bool {
	return bytes.HasPrefix(oob.AppendError(nil, &oob.PeerError{}), e.RecordHeader[:4])
}

// Foreign reports whether a handshake failed because the peer uses neither TLS nor the native protocol.
func Foreign(err error) bool {
	var other tls.RecordHeaderError
	return errors.As(err, &other) && !isPlain(other)
}

// failedTLS closes the connection and makes a tlsError, unless err is nil. peer is "server" or
// "client", dialed the name that a server's certificate must have.
func failedTLS(tcp *oob.Conn, err error, peer, dialed string) error {
	if err == nil {
		return nil
	}
	address := tcp.RemoteAddr().String()
	tcp.Close()
	var late *oob.TimeoutError
	if errors.As(err, &late) || errors.Is(err, context.Canceled) {
		return errors.WithMessage(err, "TLS")
	}
	return &tlsError{Peer: address, Problem: describe(err, peer, dialed).Error(), Err: err}
}

// Explain makes a tlsError of an error that is the peer's alert: with TLS 1.3 a server refuses
// a client's certificate after the client's handshake. Other errors stay as they are.
func Explain(err error, peer string) error {
	var closed *oob.ClosedError
	if _, is := alert(err); !is || !errors.As(err, &closed) {
		return err
	}
	return &tlsError{Peer: closed.Peer, Problem: describe(err, peer, "").Error(), Err: err}
}

// alert returns the text of an alert that the peer sent. crypto/tls has no type for it.
func alert(err error) (text string, is bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return "", false
	}
	return strings.TrimPrefix(op.Err.Error(), "tls: "), true
}

const (
	tryOneCA = "; try: directories of one CA at both ends (rdma_lab tls makes them)"
	tryNew   = "; try: new certificates (rdma_lab tls renew), and compare the clocks of both hosts"
)

// describe says what an error of crypto/tls or crypto/x509 means, with a remedy. The certificate is
// the one of peer, or if that is "" the one of this end.
func describe(err error, peer, dialed string) error {
	whose := "it"
	if peer != "" {
		whose = "the " + peer + "'s certificate"
	}
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	text, remote := alert(err)
	switch {
	case remote:
		return errors.New(describeAlert(text, peer))
	case errors.As(err, &unknown):
		return errors.New(whose + " is not from the CA of this end" + tryOneCA)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errors.Errorf("%s is valid only %v"+tryNew, whose, Validity{invalid.Cert.NotBefore, invalid.Cert.NotAfter})
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return errors.Errorf("%s is for the other end: a client's cannot serve, and a server's cannot connect; try: the directory of this role (rdma_lab tls makes both)", whose)
	case errors.As(err, &host):
		return errors.Errorf("%s is for %s, not for %s; try: rdma_lab tls --host %[3]s, or connect to a name of the certificate", whose, names(host.Certificate), dialed)
	case Foreign(err):
		return errors.Errorf("the %s does not speak TLS; try: the right port", peer)
	case errors.As(err, new(tls.RecordHeaderError)):
		return errors.Errorf("the %s does not use TLS; try: --tls at both ends, or at neither", peer)
	case strings.Contains(err.Error(), "client didn't provide a certificate"):
		return errors.New("the client showed no certificate; try: --tls DIR at the client")
	case peer == "":
		return errors.Errorf("it cannot be verified: %v"+tryNew, errors.Cause(err))
	}
	return errors.Errorf("the handshake failed: %v; try: what the %s's output says", errors.Cause(err), peer)
}

// describeAlert says why the peer ended the handshake.
func describeAlert(text, peer string) string {
	switch text {
	case "unknown certificate authority":
		return "the " + peer + " does not trust this end's certificate, because another CA signed it" + tryOneCA
	case "expired certificate":
		return "the " + peer + " says that this end's certificate has expired" + tryNew
	case "certificate required":
		return "the " + peer + " wants a certificate of this end; try: --tls DIR"
	case "bad certificate", "unsupported certificate", "unknown certificate":
		return "the " + peer + " refused this end's certificate (" + text + "); try: what the " + peer + "'s output says"
	}
	return "the " + peer + " ended the handshake: " + text + "; try: what the " + peer + "'s output says"
}

// names lists the hosts of a certificate.
func names(c *x509.Certificate) string {
	list := append([]string(nil), c.DNSNames...)
	for _, ip := range c.IPAddresses {
		list = append(list, ip.String())
	}
	if len(list) == 0 {
		return "no host"
	}
	return strings.Join(list, ", ")
}
