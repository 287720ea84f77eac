package credentials

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestMake checks which files there are and who may read them, and that nothing is written over.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	now := time.Now()
	for _, wrong := range []struct {
		hosts, clients []string
		want           string
	}{
		{nil, nil, "--host"},
		{[]string{"h"}, []string{"a/b"}, `the name "a/b"`}, {[]string{"h"}, []string{".."}, `the name ".."`},
		{[]string{"h"}, []string{""}, `the name ""`}, {[]string{"h"}, []string{Server}, `the name "server"`},
	} {
		if err := Make(dir, wrong.hosts, wrong.clients, now, now); err == nil || !strings.Contains(err.Error(), wrong.want) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if err := Make(dir, []string{"127.0.0.1", "server.lab"}, []string{Client, "alice"}, now, now); err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{
		"ca/ca.crt": 0o644, "ca/ca.key": 0o600,
		"server/tls.crt": 0o644, "server/tls.key": 0o600, "server/ca.crt": 0o644,
		"client/tls.crt": 0o644, "client/tls.key": 0o600, "client/ca.crt": 0o644,
		"alice/tls.crt": 0o644, "alice/tls.key": 0o600, "alice/ca.crt": 0o644,
	} {
		info, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
		} else if got := info.Mode().Perm(); got&^mode != 0 {
			t.Errorf("%s has the mode %v, want %v", file, got, mode)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "server/ca.key")); err == nil {
		t.Error("the server has the CA's key")
	}
	if err := Make(dir, []string{"127.0.0.1"}, nil, now, now); err == nil || !strings.Contains(err.Error(), "not empty; try: a new directory, or rdma_lab tls renew") {
		t.Error("again:", err)
	}
}

// TestRenew renews certificates once a year. The CA stays for ten years, so old and new ends trust each other.
func TestRenew(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	synctest.Test(t, func(t *testing.T) {
		from, until := time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, 30)
		if err := Make(dir, []string{"10.0.0.1", "server.lab"}, []string{Client}, from, until); err != nil {
			t.Fatal(err)
		}
		ca := parse(t, dir, Client, authorityFile)
		two := append(slices.Clip(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})), "# a second CA\n"...)
		if err := os.WriteFile(filepath.Join(dir, Server, authorityFile), two, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			time.Sleep(364 * 24 * time.Hour)
			want := time.Now().AddDate(0, 0, 30)
			old := parse(t, dir, Server, certificateFile)
			ends, until, err := Renew(dir, nil, []string{"alice"}, time.Now().Add(-time.Hour), want)
			if err != nil || !slices.Equal(ends, []string{"alice", Client, Server}) {
				t.Fatal(ends, err)
			}
			if want.After(ca.NotAfter) {
				want = ca.NotAfter
			}
			roots := x509.NewCertPool()
			roots.AddCert(ca)
			renewed := parse(t, dir, Server, certificateFile)
			if _, err := renewed.Verify(x509.VerifyOptions{Roots: roots, DNSName: "10.0.0.1"}); err != nil {
				t.Fatal(err)
			}
			if !until.Equal(want) || !renewed.NotAfter.Equal(want.Truncate(time.Second)) || renewed.DNSNames[0] != "server.lab" || old.Equal(renewed) {
				t.Fatalf("valid until %v, want %v; %v", until, want, renewed.DNSNames)
			}
		}
		if name := parse(t, dir, "alice", certificateFile).Subject.CommonName; name != "alice" {
			t.Errorf("the client alice has the name %q", name)
		}
		if text, err := os.ReadFile(filepath.Join(dir, Server, authorityFile)); err != nil || string(text) != string(two) {
			t.Errorf("%v; the server trusts %s", err, text)
		}
		time.Sleep(40 * 24 * time.Hour)
		if _, _, err := Renew(dir, nil, nil, from, until); err == nil || !strings.Contains(err.Error(), "has expired at 20") || !strings.Contains(err.Error(), "new directory") {
			t.Error("after the CA's end:", err)
		}
	})
	if _, _, err := Renew(t.TempDir(), nil, nil, time.Time{}, time.Time{}); err == nil || !strings.Contains(err.Error(), "ca.crt: no such file or directory; try: ") {
		t.Error("another directory:", err)
	}
}

// TestRenewSignsOnlyItsOwn refuses a directory with a certificate of another CA, or of another client.
func TestRenewSignsOnlyItsOwn(t *testing.T) {
	mine, other := filepath.Join(t.TempDir(), "lab"), filepath.Join(t.TempDir(), "lab")
	synctest.Test(t, func(t *testing.T) {
		from, until := time.Now().Add(-time.Hour), time.Now().AddDate(0, 0, 30)
		for _, dir := range []string{mine, other} {
			if err := Make(dir, []string{"10.0.0.1"}, []string{"alice", "bob"}, from, until); err != nil {
				t.Fatal(err)
			}
		}
		for source, want := range map[string]string{filepath.Join(other, "alice"): "is not of this CA", filepath.Join(mine, "bob"): `is for "bob"`} {
			text, err := os.ReadFile(filepath.Join(source, certificateFile))
			if err == nil {
				err = os.WriteFile(filepath.Join(mine, "alice", certificateFile), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := Renew(mine, nil, nil, from, until); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s in alice's place: %v", source, err)
			}
		}
	})
}

// parse reads a certificate of an end.
func parse(t *testing.T, dir, end, file string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, end, file))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestRenewKeepsThePair has Renew fail between the key and the certificate, which still fit then, and succeed. The key has
// its mode again.
func TestRenewKeepsThePair(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lab")
	now := time.Now()
	from, until := now.Add(-time.Hour), now.Add(time.Hour)
	if err := Make(dir, []string{"10.0.0.1"}, nil, from, until); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, Server, name) }
	fits := func() {
		t.Helper()
		if _, err := tls.LoadX509KeyPair(at(certificateFile), at(keyFile)); err != nil {
			t.Error(err)
		}
	}
	old := parse(t, dir, Server, certificateFile)
	if err := os.Chmod(at(keyFile), 0o644); err != nil {
		t.Fatal(err)
	}
	obstacle := at(certificateFile + fresh + "/file")
	if err := os.MkdirAll(obstacle, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Renew(dir, nil, nil, from, until); err == nil {
		t.Error("the certificate cannot be written, and Renew succeeds")
	}
	fits()
	if err := os.RemoveAll(at(certificateFile + fresh)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Renew(dir, nil, nil, from, until); err != nil {
		t.Fatal(err)
	}
	fits()
	if parse(t, dir, Server, certificateFile).Equal(old) {
		t.Error("the certificate is the old one")
	}
	if info, err := os.Stat(at(keyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, Server)); err != nil || len(left) != 3 {
		t.Errorf("%v, %v: want three files", left, err)
	}
}
