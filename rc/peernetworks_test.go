package rc

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

func TestMayName(t *testing.T) {
	lab := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	const host = "10.0.0.1"
	for _, c := range []struct {
		addr, remote string
		networks     []netip.Prefix
		may          bool
	}{
		{"10.0.0.5", "10.0.0.5", nil, true},
		{"fe80::5", "fe80::5%eth0", nil, true},
		{"10.0.0.6", "10.0.0.5", nil, false},
		{"127.1.2.3", "10.0.0.5", nil, false},
		{"127.1.2.3", "127.0.0.1", nil, true},
		{"127.1.2.3", "::1", nil, true},
		{"127.1.2.3", host, nil, true}, // a peer on this host
		{"10.0.0.5", "127.0.0.1", nil, false},
		{"192.0.2.9", "10.0.0.5", lab, true},
		{"2001:db8::9", "10.0.0.5", lab, true},
		{"192.0.3.9", "10.0.0.5", lab, false},
		{"224.0.0.9", "10.0.0.5", []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}, false},
		{"ff02::9", "ff02::9", nil, false},
	} {
		if may := mayName(netip.MustParseAddr(c.addr), netip.MustParseAddr(host), netip.MustParseAddr(c.remote), c.networks); may != c.may {
			t.Errorf("a peer from %s names %s with %v: %v", c.remote, c.addr, c.networks, may)
		}
	}
}

// nowhere is a connection without an IP address.
type nowhere struct{ net.Conn }

func (nowhere) RemoteAddr() net.Addr { return &net.UnixAddr{} }

func hideAddress(_ context.Context, nc net.Conn) (net.Conn, error) { return nowhere{nc}, nil }

// TestAPeerNamesAnotherHost has a client give the address of a host that is not its own. The moves
// to RTR fail where it is allowed: from loopback no way leads there.
func TestAPeerNamesAnotherHost(t *testing.T) {
	dev := softtest.Open(t)
	soft := dev.Info().InProcess
	other := oob.Endpoint{QPType: oob.QPTypeRC, QPN: 17, GID: netip.MustParseAddr("203.0.113.9").As16(), MTU: 1024, InitiatorDepth: 1, ResponderResources: 1}
	foreign := func(_ context.Context, _ *Conn, up func([]oob.Endpoint) error) error {
		return up([]oob.Endpoint{other})
	}
	for _, c := range []struct {
		name    string
		cfg     Config
		listen  ListenConfig
		refused bool
	}{
		{"default", Config{}, ListenConfig{}, soft},
		{"no networks", Config{PeerNetworks: []netip.Prefix{}}, ListenConfig{}, true},
		{"its network", Config{PeerNetworks: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}, ListenConfig{}, false},
		{"an Exchange", Config{Exchange: foreign}, ListenConfig{}, soft},
		{"a Wrap without addresses", Config{}, ListenConfig{Wrap: hideAddress}, soft},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := Listen(t.Context(), "127.0.0.1:0", c.listen)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			client, err := oob.Dial(t.Context(), l.Addr().String(), oob.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			in, err := l.Accept(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.cfg.Exchange == nil {
				go func() {
					if _, err := client.Hello(t.Context(), oob.Hello{Role: oob.RoleClient}); err != nil {
						return
					}
					if _, err := client.ExchangeEndpoints(t.Context(), []oob.Endpoint{other}); err == nil {
						_, _ = client.ExchangeRegions(t.Context(), nil)
						_ = client.Barrier(t.Context(), barrierReceives)
					}
				}()
				if _, err := in.Hello(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			c.cfg.Device = dev
			conn, err := in.Connect(t.Context(), c.cfg)
			if err == nil {
				t.Fatal("connected", conn.Close())
			}
			said := strings.Contains(err.Error(), "names the GID ::ffff:203.0.113.9, but its TCP connection comes from 127.0.0.1") && errors.As(err, new(*PeerAddressError))
			if said != c.refused || c.refused == strings.Contains(err.Error(), "INIT→RTR: ibv_modify_qp") {
				t.Error(err)
			}
		})
	}
}
