// Package credentials makes directories of certificates for --tls: a new CA, a server and a client.
// They are for laboratories. A site that has a CA uses certificates of that CA.
package credentials

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/pkg/errors"
)

// The directories that Make makes.
const (
	Authority = "ca"     // ca.crt and ca.key. Keep ca.key secret: it signs certificates
	Server    = "server" // for rdma_server --tls
	Client    = "client" // for rdma_client --tls
)

// Make makes dir with the directories ca, server and client. The server's certificate is for hosts,
// which are names and addresses. All certificates are valid between from and until. dir must be
// empty or not exist.
func Make(dir string, hosts []string, from, until time.Time) error {
	if len(hosts) == 0 {
		return errors.New("a server's certificate needs a host; try: --host NAME, where NAME is what clients connect to")
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil && !os.IsNotExist(err) {
		if err == nil {
			err = errors.Errorf("the directory %s is not empty", dir)
		}
		return fmt.Errorf("%w; try: a new directory", err)
	}
	ca, err := newAuthority(from, until)
	if err != nil {
		return err
	}
	server := &x509.Certificate{Subject: pkix.Name{CommonName: "rdma_server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	client := &x509.Certificate{Subject: pkix.Name{CommonName: "rdma_client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if err := ca.write(filepath.Join(dir, Authority), "ca.crt", "ca.key"); err != nil {
		return err
	}
	for name, template := range map[string]*x509.Certificate{Server: server, Client: client} {
		p, err := ca.sign(template)
		if err != nil {
			return errors.WithMessagef(err, "make the %s's certificate", name)
		}
		at := filepath.Join(dir, name)
		if err := p.write(at, "tls.crt", "tls.key"); err != nil {
			return err
		}
		if err := writePEM(filepath.Join(at, "ca.crt"), "CERTIFICATE", ca.certificate.Raw, 0o644); err != nil {
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
func newAuthority(from, until time.Time) (*pair, error) {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "rawverbs laboratory CA"}, NotBefore: from, NotAfter: until,
		KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
	}
	p, err := makePair(template, template, nil)
	return p, errors.WithMessage(err, "make the CA")
}

// sign makes a certificate of the CA p, which is valid as long as the CA.
func (p *pair) sign(template *x509.Certificate) (*pair, error) {
	template.NotBefore, template.NotAfter = p.certificate.NotBefore, p.certificate.NotAfter
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	return makePair(template, p.certificate, p.key)
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

// write writes both to a directory, and makes the directory.
func (p *pair) write(dir, certificate, key string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(p.key)
	if err != nil {
		return err
	}
	if err := writePEM(filepath.Join(dir, key), "PRIVATE KEY", der, 0o600); err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, certificate), "CERTIFICATE", p.certificate.Raw, 0o644)
}

func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode)
}
