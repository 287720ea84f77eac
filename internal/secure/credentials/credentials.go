// Package credentials makes and renews directories of certificates for --tls: a CA, a server and clients.
// They are for laboratories. A site that has a CA uses certificates of that CA.
package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io/fs"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pkg/errors"
)

// The directories that Make makes, beside one for each client.
const (
	Authority = "ca"     // ca.crt and ca.key. Keep ca.key secret: it signs certificates
	Server    = "server" // for rdma_server --tls
	Client    = "client" // for rdma_client --tls, unless clients have names
)

// The files of the directories.
const (
	certificateFile, keyFile    = "tls.crt", "tls.key"
	authorityFile, authorityKey = "ca.crt", "ca.key"
)

// Make makes dir with the directories ca and server, and one for each client. The server's certificate is for
// hosts, which are names and addresses. A client's certificate has the name of its directory. The
// certificates are valid between from and until, and the CA for ten years. dir must be empty or not exist.
func Make(dir string, hosts, clients []string, from, until time.Time) error {
	if len(hosts) == 0 {
		return errors.New("a server's certificate needs a host; try: --host NAME, where NAME is what clients connect to")
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil && !os.IsNotExist(err) {
		if err == nil {
			err = errors.Errorf("the directory %s is not empty", dir)
		}
		return fmt.Errorf("%w; try: a new directory, or rdma_lab tls renew", err)
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "rdma_server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	ends := map[string]*x509.Certificate{Server: server}
	if err := addClients(ends, clients); err != nil {
		return err
	}
	ca, err := newAuthority(from)
	if err != nil {
		return err
	}
	if err := ca.write(filepath.Join(dir, Authority), authorityFile, authorityKey); err != nil {
		return err
	}
	return ca.writeEnds(dir, ends, hosts, from, until)
}

// Renew makes new keys and certificates of all ends in a dir of Make, and of further clients. The server's
// certificate is for the same hosts as before, unless hosts has others. Each ca.crt stays as it is. Renew
// returns the ends, and when their certificates expire: at until, or with the CA.
func Renew(dir string, hosts, clients []string, from, until time.Time) ([]string, time.Time, error) {
	const try = "; try: a directory that rdma_lab tls has made"
	at := filepath.Join(dir, Authority)
	signer, err := tls.LoadX509KeyPair(filepath.Join(at, authorityFile), filepath.Join(at, authorityKey))
	if err != nil {
		return nil, until, fmt.Errorf("read the CA %s: %w"+try, at, err)
	}
	key, ok := signer.PrivateKey.(*ecdsa.PrivateKey)
	ca := &pair{signer.Leaf, key}
	switch last := ca.certificate.NotAfter; {
	case !ok:
		return nil, until, errors.Errorf("the CA %s has a key of another kind"+try, at)
	case last.Before(time.Now()):
		return nil, until, errors.Errorf("the CA %s has expired at %s; try: rdma_lab tls in a new directory", at, last.UTC().Format(time.RFC3339))
	case last.Before(until):
		until = last
	}
	ends := map[string]*x509.Certificate{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, until, err
	}
	for _, e := range entries {
		file := filepath.Join(dir, e.Name(), certificateFile)
		text, err := os.ReadFile(file)
		if !e.IsDir() || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, until, err
		}
		block, _ := pem.Decode(text)
		if block == nil {
			return nil, until, errors.Errorf("%s has no certificate in PEM; try: remove its directory", file)
		}
		old, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, until, fmt.Errorf("read the certificate %s: %w; try: remove its directory", file, err)
		}
		if err := old.CheckSignatureFrom(ca.certificate); err != nil {
			return nil, until, fmt.Errorf("the certificate %s is not of this CA: %w; try: remove its directory", file, err)
		}
		if name := old.Subject.CommonName; e.Name() != Server && name != e.Name() {
			return nil, until, errors.Errorf("the certificate %s is for %q, not for its directory; try: remove it", file, name)
		}
		ends[e.Name()] = &x509.Certificate{Subject: old.Subject, DNSNames: old.DNSNames, IPAddresses: old.IPAddresses, ExtKeyUsage: old.ExtKeyUsage}
	}
	if err := addClients(ends, clients); err != nil {
		return nil, until, err
	}
	if len(ends) == 0 {
		return nil, until, errors.Errorf("%s has no end's certificate"+try, dir)
	}
	return slices.Sorted(maps.Keys(ends)), until, ca.writeEnds(dir, ends, hosts, from, until)
}

// addClients adds the certificates of clients to ends.
func addClients(ends map[string]*x509.Certificate, clients []string) error {
	for _, name := range clients {
		if !filepath.IsLocal(name) || filepath.Base(name) != name || name == "." || name == Authority || name == Server {
			return errors.Errorf("a client cannot have the name %q, which is its directory's name too; try: --client alice", name)
		}
		ends[name] = &x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	}
	return nil
}

// writeEnds makes certificates from templates, and writes them to directories of dir. The server's are for
// hosts, if there are any.
func (p *pair) writeEnds(dir string, ends map[string]*x509.Certificate, hosts []string, from, until time.Time) error {
	if server := ends[Server]; server != nil && len(hosts) > 0 {
		server.IPAddresses, server.DNSNames = nil, nil
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				server.IPAddresses = append(server.IPAddresses, ip)
			} else {
				server.DNSNames = append(server.DNSNames, host)
			}
		}
	}
	for name, template := range ends {
		template.NotBefore, template.NotAfter = from, until
		template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
		end, err := makePair(template, p.certificate, p.key)
		if err != nil {
			return errors.WithMessagef(err, "make the %s's certificate", name)
		}
		at := filepath.Join(dir, name)
		if err := end.write(at, certificateFile, keyFile); err != nil {
			return err
		}
		authority := filepath.Join(at, authorityFile)
		if _, err := os.Stat(authority); err == nil {
			continue // it may have two CAs
		}
		if err := writePEM(authority, "CERTIFICATE", p.certificate.Raw, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pair is a certificate with its private key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// newAuthority makes a CA that can sign certificates of ends and no further CAs.
func newAuthority(from time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "rawverbs laboratory CA"}, NotBefore: from, NotAfter: from.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	p, err := makePair(template, template, nil)
	return p, errors.WithMessage(err, "make the CA")
}

// makePair makes a key and its certificate. A nil signer is the new key itself.
func makePair(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if signer == nil {
		signer = key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &pair{certificate, key}, err
}

// write writes both to a directory, and makes the directory. Old files stay until both new ones are written.
func (p *pair) write(dir, certificate, key string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return err
	}
	key, certificate = filepath.Join(dir, key), filepath.Join(dir, certificate)
	if err := writePEM(key+fresh, "PRIVATE KEY", der, 0o600); err != nil {
		return err
	}
	if err := writePEM(certificate+fresh, "CERTIFICATE", p.certificate.Raw, 0o644); err != nil {
		return err
	}
	if err := os.Rename(key+fresh, key); err != nil {
		return err
	}
	return os.Rename(certificate+fresh, certificate)
}

const fresh = ".new" // ends the name of a file that is not complete yet

// writePEM writes a new file, so that it has this mode.
func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
