// The certificate of --tls at a server, which is read again when its files change, and what is said before it expires.

package run

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/secure"
	"github.com/rawverbs/rawverbs/internal/systemd"
)

const (
	readEvery    = 10 * time.Second // how often the files are compared: seldom enough to cost nothing
	expiringDays = 14               // how long before its end a certificate is worth a warning
)

// certificates are those of a server's directory. watch reads them again; config and Counts use them meanwhile.
type certificates struct {
	dir     string
	log     *slog.Logger
	current atomic.Pointer[certificate]

	files  []byte // from which current was read
	failed string // the error that was logged last, until the files are good again
	days   int    // that were left when the expiry was logged last
}

// certificate is what one reading has found.
type certificate struct {
	tls *tls.Config
	secure.Validity
}

// certificates reads the directory of --tls; nil without one. A certificate that is not valid now is no error: the
// server lives, and its health check fails, until there is another.
func (o *ServerOptions) certificates() (*certificates, error) {
	if o.TLS == "" {
		return nil, nil
	}
	c := &certificates{dir: o.TLS, log: o.Logger, files: secure.Files(o.TLS), days: expiringDays}
	first, err := readCertificate(o.TLS)
	if err != nil && first.Validity == (secure.Validity{}) {
		return nil, errors.WithMessage(err, "--tls")
	}
	c.current.Store(&first)
	return c, nil
}

func readCertificate(dir string) (c certificate, err error) {
	if c.tls, err = secure.Read(dir); err != nil {
		return c, err
	}
	c.Validity, err = secure.Check(c.tls, x509.ExtKeyUsageServerAuth)
	return c, errors.WithMessagef(err, "the certificate in %s", dir)
}

// config returns what a listener makes handshakes with: each with the certificate of that time. It is nil without --tls.
func (c *certificates) config() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return c.current.Load().tls, nil
	}}
}

// watch reads the files again when they have changed, or at a hangup, until ctx ends.
func (c *certificates) watch(ctx context.Context, hangup <-chan os.Signal) {
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for {
		c.remind()
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			c.failed = ""
			c.reload()
		case <-tick.C:
			c.refresh()
		}
	}
}

// reload reads the files, also unchanged ones, and tells systemd.
func (c *certificates) reload() {
	if state, err := systemd.Reloading(); err == nil && systemd.Notify(state) == nil {
		defer func() { _ = systemd.Notify(systemd.Ready) }() // the log has what became of the files
	}
	c.read(secure.Files(c.dir))
}

// refresh reads the files again if they have changed.
func (c *certificates) refresh() {
	if files := secure.Files(c.dir); bytes.Equal(files, c.files) {
		c.failed = ""
	} else {
		c.read(files)
	}
}

// read takes the files. Files that cannot be used, such as half of a new pair, are looked at again each time, and
// logged once.
func (c *certificates) read(files []byte) {
	next, err := readCertificate(c.dir)
	if err == nil {
		c.current.Store(&next)
		c.files, c.failed, c.days = files, "", expiringDays
		event.CertificateRead.Log(c.log, "the certificate was read again, for new clients", slog.Time("until", next.Until))
	} else if text := err.Error(); text != c.failed {
		c.failed = text
		event.CertificateKept.LogAt(slog.LevelWarn, c.log, "the new certificate cannot be used, and the server keeps the one it has", slog.String("error", text))
	}
}

// remind logs that the certificate expires soon, once a day, and that it is not valid.
func (c *certificates) remind() {
	now := c.current.Load()
	days := int(math.Floor(time.Until(now.Until).Hours() / 24))
	if !now.Now() {
		days = -1
	}
	if days >= expiringDays || days == c.days {
		return
	}
	c.days = days
	const layout, try = "2006-01-02 15:04 MST", "; try: new files in "
	until := slog.Time("until", now.Until)
	if days >= 0 {
		event.CertificateExpires.LogAt(slog.LevelWarn, c.log, "the certificate expires at "+now.Until.UTC().Format(layout)+try+c.dir, until)
		return
	}
	event.CertificateExpires.LogAt(slog.LevelError, c.log, fmt.Sprintf("no client can connect: the certificate is valid only from %s to %s%s",
		now.From.UTC().Format(layout), now.Until.UTC().Format(layout), try+c.dir), until)
}

// allowed refuses a client whose certificate has another name than --tls-allow.
func (s *server) allowed(in *comer) error {
	if name := in.name(); len(s.TLSAllow) > 0 && !slices.Contains(s.TLSAllow, name) {
		return errors.Errorf("this server does not serve the certificate %q; try: another one, or rdma_server --tls-allow", name)
	}
	return nil
}

// name returns the name of the client's certificate, "" without one.
func (in *comer) name() string {
	if c := in.PeerCertificate(); c != nil {
		return secure.Name(c)
	}
	return ""
}

// peer says in a log who the client is.
func (in *comer) peer() []slog.Attr {
	attrs := []slog.Attr{slog.String("peer", in.TCP().RemoteAddr().String())}
	if in.PeerCertificate() != nil {
		attrs = append(attrs, slog.String("certificate", in.name()))
	}
	return attrs
}
