package secure

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/internal/secure/credentials"
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

// TestAuthorities reads two CAs. The error of a damaged one names the file.
func TestAuthorities(t *testing.T) {
	dir, now := filepath.Join(t.TempDir(), "lab"), time.Now()
	if err := credentials.Make(dir, []string{"localhost"}, nil, now, now.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	server := filepath.Join(dir, credentials.Server)
	file := filepath.Join(server, authorityFile)
	ca, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	one, half := string(ca), string(ca[:len(ca)/2])
	for _, test := range []struct{ text, want string }{
		{one + one, ""}, {"# mine\n" + one + "# the site's\n" + one, ""},
		{one + half, "has a certificate that is cut off or damaged; "}, {half + "\n" + one, "has a certificate that is cut off or damaged; "}, {half, "has a certificate that is cut off or damaged; "},
		{one + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "has a certificate that cannot be parsed: "},
		{"# none\n", "has no certificate in PEM"},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Read(server)
		if want := "load the CA: " + file + " " + test.want; (err == nil) != (test.want == "") || err != nil && (!strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "; try: ")) {
			t.Errorf("%v; want %q of\n%s", err, want, test.text)
		}
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
