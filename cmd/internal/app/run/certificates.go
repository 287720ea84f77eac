// The certificate of --tls at a server, which is read again when its files change, and what is said before it expires.

package run

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/app/systemd"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/internal/secure"
)

const readEvery = 10 * time.Second // how often the files are compared: seldom enough to cost nothing

// certificates are those of a server's directory. watch reads them again; config and Counts use them meanwhile.
type certificates struct {
	dir     string
	log     *slog.Logger
	current atomic.Pointer[certificate]

	files  map[string]string // from which current was read
	failed string            // the error that was logged last, until the files are good again
	days   int               // that were left when the expiry was logged last; unsaid if it was not
}

const unsaid = -2 // days are -1 after the end

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
	c := &certificates{dir: o.TLS, log: o.Logger, files: secure.Files(o.TLS), days: unsaid}
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
			c.reload()
		case <-tick.C:
			c.refresh()
		}
	}
}

// reload reads the files again if they have changed, says what became of them, and tells systemd.
func (c *certificates) reload() {
	if state, err := systemd.Reloading(); err == nil && systemd.Notify(state) == nil {
		defer func() { _ = systemd.Notify(systemd.Ready) }() // the log has what became of the files
	}
	c.failed = ""
	if !c.refresh() {
		event.CertificateRead.Log(c.log, "the certificate has not changed"+c.copies(), slog.Time("until", c.current.Load().Until))
	}
}

// refresh reads the files again if they have changed. Files that cannot be used, such as half of a new pair, are
// looked at again each time, and logged once.
func (c *certificates) refresh() (changed bool) {
	files := secure.Files(c.dir)
	var differ []string
	for name, text := range files {
		if text != c.files[name] {
			differ = append(differ, name)
		}
	}
	if differ == nil {
		c.failed = ""
		return false
	}
	slices.Sort(differ)
	next, err := readCertificate(c.dir)
	if err == nil {
		c.current.Store(&next)
		c.files, c.failed, c.days = files, "", unsaid
		event.CertificateRead.Log(c.log, "the certificate was read again, for new clients", slog.Any("changed", differ), slog.Time("until", next.Until))
	} else if text := err.Error(); text != c.failed {
		c.failed = text
		event.CertificateKept.LogAt(slog.LevelWarn, c.log, "the new certificate cannot be used, and the server keeps the one it has", slog.String("error", text))
	}
	return true
}

// remind logs that the certificate expires soon, once a day, and that it is not valid.
func (c *certificates) remind() {
	now := c.current.Load()
	left := time.Until(now.Until)
	days := int(left.Hours() / 24)
	if !now.Now() {
		days = -1
	}
	if days >= 0 && left >= now.Warn() || days == c.days {
		return
	}
	c.days = days
	try, until := "; try: new files in "+c.dir, slog.Time("until", now.Until)
	if copies := c.copies(); copies != "" {
		try = copies
	}
	if days >= 0 {
		event.CertificateExpires.LogAt(slog.LevelWarn, c.log, "the certificate expires at "+secure.Minute(now.Until)+try, until)
		return
	}
	event.CertificateExpires.LogAt(slog.LevelError, c.log, fmt.Sprintf("no client can connect: the certificate is valid only %v%s", now.Validity, try), until)
}

// copies says what to try if systemd has made the files for the service: nobody else may write there.
func (c *certificates) copies() string {
	if dir := os.Getenv("CREDENTIALS_DIRECTORY"); dir == "" || filepath.Clean(c.dir) != filepath.Clean(dir) {
		return ""
	}
	return "; its files are copies of LoadCredential's; try: new files there, then systemctl restart"
}

// allowed refuses a client whose certificate has another name than --tls-allow.
func (s *server) allowed(in *incoming) error {
	if name := in.name(); len(s.TLSAllow) > 0 && !slices.Contains(s.TLSAllow, name) {
		return errors.Errorf("this server does not serve the certificate %q; try: another one, or rdma_server --tls-allow", name)
	}
	return nil
}

// name returns the name of the client's certificate, "" without one.
func (in *incoming) name() string {
	if c := in.PeerCertificate(); c != nil {
		return secure.Name(c)
	}
	return ""
}

// peer says in a log who the client is.
func (in *incoming) peer() []slog.Attr {
	attrs := []slog.Attr{slog.String("peer", in.TCP().RemoteAddr().String())}
	if in.PeerCertificate() != nil {
		attrs = append(attrs, slog.String("certificate", in.name()))
	}
	return attrs
}
