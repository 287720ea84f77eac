// A directory with a certificate: reading it, and checking the certificate.

package secure

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

// The files of a TLS directory, named like the keys of a Kubernetes Secret for TLS.
const (
	certificateFile = "tls.crt" // this end's certificate, then those of CAs between it and the root
	keyFile         = "tls.key" // the private key of the certificate
	authorityFile   = "ca.crt"  // the CA that the peer's certificate must come from
)

// Load reads a directory for either end: see rc.LoadTLS.
func Load(dir string) (*tls.Config, error) {
	cfg, err := Read(dir)
	if err != nil {
		return nil, err
	}
	if _, err := Check(cfg, x509.ExtKeyUsageAny); err != nil {
		return nil, errors.WithMessagef(err, "the certificate %s", filepath.Join(dir, certificateFile))
	}
	return cfg, nil
}

// Files returns the contents of a directory's files by name, to see which have changed. A file that cannot be read
// counts as empty.
func Files(dir string) map[string]string {
	all := make(map[string]string)
	for _, name := range []string{certificateFile, keyFile, authorityFile} {
		text, _ := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(text)
	}
	return all
}

// Read reads a directory and does not verify its certificate. The error names the file.
func Read(dir string) (*tls.Config, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	pair, err := tls.LoadX509KeyPair(in(certificateFile), in(keyFile))
	if err != nil {
		return nil, fmt.Errorf("load the certificate %s and its key %s: %w%s", in(certificateFile), in(keyFile), err, tryFiles(err))
	}
	text, err := os.ReadFile(in(authorityFile))
	if err != nil {
		return nil, fmt.Errorf("load the CA: %w%s", err, tryFiles(err))
	}
	authority, err := pool(text)
	if err != nil {
		return nil, fmt.Errorf("load the CA: %s %w", in(authorityFile), err)
	}
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{pair},
		RootCAs:                authority,
		ClientCAs:              authority,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true, // a ticket would outlive the CA that was replaced
	}, nil
}

// pool returns the certificates of a text in PEM. Unlike [x509.CertPool.AppendCertsFromPEM] it leaves none out: a second CA
// that is cut off is an error.
func pool(text []byte) (*x509.CertPool, error) {
	all, found := x509.NewCertPool(), 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("has a certificate that cannot be parsed: %w; try: copy the file again", err)
		}
		all.AddCert(c)
		found++
	}
	switch bytes.Count(text, []byte("-----BEGIN CERTIFICATE-----")) {
	case 0:
		return nil, errors.New("has no certificate in PEM" + tryFiles(nil))
	case found:
		return all, nil
	}
	return nil, errors.New("has a certificate that is cut off or damaged; try: copy the file again")
}

// tryFiles is the remedy for an error of reading a directory.
func tryFiles(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "; try: a file that this user may read; with systemd: LoadCredential (docs/operations.md)"
	}
	return "; try: a directory that rdma_lab tls has made"
}

// Validity is the time during which a certificate and all CAs above it are valid.
type Validity struct{ From, Until time.Time }

// String returns both times: "from 2026-11-27 08:00 UTC to 2027-11-27 08:00 UTC".
func (v Validity) String() string { return "from " + Minute(v.From) + " to " + Minute(v.Until) }

// Minute returns a time as texts about certificates have it: "2026-11-27 08:00 UTC".
func Minute(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// Now reports whether a certificate is valid now.
func (v Validity) Now() bool {
	now := time.Now()
	return !now.Before(v.From) && !now.After(v.Until)
}

// Warn returns for how long before its end a certificate is worth a warning: 14 days, or a quarter of its life if that
// is less. Most programs renew a certificate when a third of its life is left.
func (v Validity) Warn() time.Duration { return min(14*24*time.Hour, v.Until.Sub(v.From)/4) }

// Check verifies that cfg's certificate comes from cfg's CA and is for the usage. If it is not valid now, the
// error says so, and the validity is that of the certificate or CA at fault. After other errors it is zero.
func Check(cfg *tls.Config, usage x509.ExtKeyUsage) (Validity, error) {
	pair := cfg.Certificates[0]
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	chains, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: cfg.RootCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	var longest Validity
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		longest = Validity{invalid.Cert.NotBefore, invalid.Cert.NotAfter}
	}
	if err != nil {
		return longest, describe(err, "", "")
	}
	for _, chain := range chains {
		v := Validity{chain[0].NotBefore, chain[0].NotAfter}
		for _, c := range chain[1:] {
			if c.NotBefore.After(v.From) {
				v.From = c.NotBefore
			}
			if c.NotAfter.Before(v.Until) {
				v.Until = c.NotAfter
			}
		}
		if v.Until.After(longest.Until) {
			longest = v
		}
	}
	return longest, nil
}

// Name returns the name that the CA has given to a certificate's holder: the common name, or else the first DNS name,
// URI or e-mail address. It is "" if the certificate has none.
func Name(c *x509.Certificate) string {
	list := append([]string{c.Subject.CommonName}, c.DNSNames...)
	for _, uri := range c.URIs {
		list = append(list, uri.String())
	}
	for _, name := range append(list, c.EmailAddresses...) {
		if name != "" {
			return name
		}
	}
	return ""
}
