package secure

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"io/fs"
	"net/url"
	"strings"
	"testing"
)

// TestOwnCertificate checks that an error about this end's certificate names no peer.
func TestOwnCertificate(t *testing.T) {
	err := describe(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, "", "")
	if text := err.Error(); strings.Contains(text, "handshake") || !strings.Contains(text, "try: new certificates") {
		t.Errorf("%q", text)
	}
}

// TestUnreadable checks that a file of another user has another remedy than a file that is not there.
func TestUnreadable(t *testing.T) {
	if try := tryFiles(&fs.PathError{Err: fs.ErrPermission}); !strings.Contains(try, "this user may read; with systemd: LoadCredential") {
		t.Error(try)
	}
}

// TestName checks which of its names a certificate goes by.
func TestName(t *testing.T) {
	uri := []*url.URL{{Scheme: "spiffe", Host: "site", Path: "/alice"}}
	for want, c := range map[string]x509.Certificate{
		"alice":               {Subject: pkix.Name{CommonName: "alice"}, DNSNames: []string{"alice.lab"}},
		"alice.lab":           {DNSNames: []string{"alice.lab", "bob.lab"}, URIs: uri},
		"spiffe://site/alice": {URIs: uri, EmailAddresses: []string{"alice@lab"}},
		"alice@lab":           {EmailAddresses: []string{"alice@lab"}},
		"":                    {},
	} {
		if got := Name(&c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
