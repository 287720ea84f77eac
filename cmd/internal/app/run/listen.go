// Where a server listens, and who may come.

package run

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
	"github.com/rawverbs/rawverbs/internal/event"
	"github.com/rawverbs/rawverbs/rc"
)

// listen listens for clients of the device, with TLS if secured is not nil. limits are logged.
func (o *ServerOptions) listen(ctx context.Context, device string, secured *tls.Config, limits ...slog.Attr) (*rc.Listener, error) {
	listener, err := rc.Listen(ctx, net.JoinHostPort(o.address(device), strconv.Itoa(o.TCPPort)), rc.ListenConfig{
		Program: o.Program, Params: kit.Params{kit.ParamMaxSize: strconv.FormatInt(int64(o.MaxSize), 10), trace.Param: trace.ParamValue},
		Timeout: o.Timeout, Logger: event.Shown(o.Logger), TLS: secured,
	})
	if err != nil {
		return nil, err
	}
	who := "rdma_client"
	switch {
	case !o.Native():
		who = "a client of --peer " + o.Peer.Name
	case secured != nil:
		who = "rdma_client --tls"
	}
	at := slog.String("address", listener.Addr().String())
	event.ServerListening.Log(o.Logger, fmt.Sprintf("listening on %s for %s", listener.Addr(), who), append([]slog.Attr{at, slog.String("program", o.Program)}, limits...)...)
	if tcp, ok := listener.Addr().(*net.TCPAddr); secured == nil && ok && !tcp.IP.IsLoopback() {
		try := "--tls DIR, or --listen 127.0.0.1"
		if !o.Native() {
			try = "--listen with the address of a trusted network"
		}
		event.ServerUnauthenticated.LogAt(slog.LevelWarn, o.Logger, "the exchange is unauthenticated: every host that can reach this address can run jobs here; try: "+try, at)
	}
	return listener, nil
}

// address returns the host to listen on. Clients of soft0 are on this host, so loopback suffices.
func (o *ServerOptions) address(device string) string {
	if o.Listen == "" && o.TLS == "" && device == "soft0" {
		return "127.0.0.1"
	}
	return o.Listen
}

// checkAddress returns why no client can connect to the address of --listen: no interface has it any more. What the
// device has may be other addresses.
func (o *ServerOptions) checkAddress(ctx context.Context) error {
	if net.ParseIP(o.Listen) == nil { // all addresses, or a name
		return nil
	}
	probe, err := new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(o.Listen, "0"))
	if err == nil {
		return probe.Close()
	}
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return errors.Errorf("no interface has the address %s of --listen; try: ip address", o.Listen)
	}
	return nil // such as too many open files
}
