// The running system.

package doctor

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/bulk"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/cmd/internal/job/write"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce"
	"github.com/rawverbs/rawverbs/verbs"
)

// NewHost returns the machine that this process runs on. args are Host.Args.
func NewHost(args []string) *Host {
	return &Host{
		System: system{}, Files: os.DirFS("/"), UID: os.Getuid(), Parent: os.Getppid(),
		Args: args, Preloaded: preloaded(),
	}
}

// preloaded is Host.Preloaded, from the environment that cmd/internal/app/preload sets.
func preloaded() string {
	if !strings.Contains(os.Getenv("LD_PRELOAD"), "librawverbs.so") {
		return ""
	}
	return strings.NewReplacer(":", "-", "/", "-", "%", "-").Replace(cmp.Or(os.Getenv("RAWVERBS_DEVICE"), "soft0"))
}

type system struct{}

// rocePort is the UDP port of RoCE v2.
const rocePort = 4791

func (system) Interfaces() (list []Interface, err error) {
	all, err := net.Interfaces()
	for _, f := range all {
		i := Interface{Name: f.Name, Up: f.Flags&net.FlagUp != 0, Carrier: f.Flags&net.FlagRunning != 0, MTU: f.MTU}
		addrs, _ := f.Addrs() // the interface may have gone
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				i.Addrs = append(i.Addrs, prefix.Addr().Unmap())
			}
		}
		list = append(list, i)
	}
	return list, err
}

func (system) OpenFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

func (system) Listed() (names []string, err error) {
	all, err := verbs.Devices()
	for _, d := range all {
		names = append(names, d.Name)
	}
	return names, err
}

func (system) Probe(name string) (p Probe) {
	dev, err := verbs.Open(name)
	if err != nil {
		return Probe{OpenErr: err}
	}
	defer dev.Close()
	if p.Port, p.OpenErr = dev.QueryPort(1); p.OpenErr != nil {
		return p
	}
	if p.GIDs, p.OpenErr = dev.QueryGIDTable(); p.OpenErr != nil {
		return p
	}
	pd, err := dev.AllocPD()
	if err != nil {
		p.Memory = err
		return p
	}
	defer pd.Close()
	mr, err := pd.AllocMR(4096, verbs.AccessLocalWrite)
	if err != nil {
		p.Memory = err
		return p
	}
	p.Memory = mr.Close()
	return p
}

// loopbackRegion is the name of the region that the job on loopback WRITEs to.
const loopbackRegion = "doctor"

func (system) Loopback(ctx context.Context, name string, gid int) (notes []string, err error) {
	dev, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	defer func() { notes = softroce.Notes(dev) }()
	cfg := rc.Config{Device: dev}
	if gid >= 0 {
		cfg.GIDIndex = &gid
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		err := serveOne(ctx, l, cfg)
		if err != nil {
			cancel(err)
		}
		served <- err
	}()
	if err = writeAndRead(ctx, l.Addr().String(), cfg); err != nil {
		cancel(err)
	}
	if other := <-served; err == nil {
		err = other
	}
	return nil, err
}

// serveOne lets one client write to and read from a region.
func serveOne(ctx context.Context, l *rc.Listener, cfg rc.Config) error {
	in, err := l.Accept(ctx)
	if err != nil {
		return err
	}
	if _, err := in.Hello(ctx); err != nil {
		in.Refuse(err)
		return err
	}
	cfg.Access = verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	cfg.Prepare = func(c *rc.Conn) error {
		mr, err := c.AllocMR(loopbackRegion, 4096, verbs.AccessLocalWrite|cfg.Access)
		if err == nil {
			c.Share(loopbackRegion, mr)
		}
		return err
	}
	conn, err := in.Connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Finish(ctx)
}

// writeAndRead is the client of serveOne.
func writeAndRead(ctx context.Context, address string, cfg rc.Config) error {
	var mr *verbs.MR
	cfg.Prepare = func(c *rc.Conn) (err error) {
		mr, err = c.AllocMR("text", 8192, verbs.AccessLocalWrite)
		return err
	}
	conn, err := rc.Dial(ctx, address, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	region, is := conn.PeerRegion(loopbackRegion)
	if !is {
		return errors.New("the peer shares no region")
	}
	text := mr.Bytes()[:4096]
	for i := range text {
		text[i] = byte(i * 7)
	}
	if err := conn.Write(ctx, mr.Slice(0, 4096), region, 0); err != nil {
		return err
	}
	if err := conn.Read(ctx, mr.Slice(4096, 4096), region, 0); err != nil {
		return err
	}
	if !bytes.Equal(text, mr.Bytes()[4096:]) {
		return errors.New("what was read back differs from what was written")
	}
	return conn.Finish(ctx)
}

func (system) Lookup(ctx context.Context, host string) (netip.Addr, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.Addr{}, err
	}
	return addrs[0].Unmap(), nil
}

func (system) Source(to netip.Addr) (netip.Addr, error) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(to, rocePort)))
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap(), nil
}

func (system) Connect(ctx context.Context, to netip.AddrPort) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	return conn.Close()
}

// Job links two jobs only: run.Client would link them all, with the foreign programs.
func (system) Job(ctx context.Context, device string, to netip.AddrPort, args ...string) (err error) {
	name, _ := strings.CutPrefix(args[0], "--job=")
	kind, err := slices.Concat(write.Jobs, bulk.Jobs).Find(name)
	if err != nil {
		return err
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	side := kind.Client(flags)
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	endpoint, err := side.NewEndpoint(kit.Session{Logger: log, Port: 1})
	if err != nil {
		return err
	}
	if c, ok := endpoint.(io.Closer); ok {
		defer kit.CloseAll(&err, c)
	}
	dev, err := verbs.Open(device)
	if err != nil {
		return err
	}
	defer kit.CloseAll(&err, dev)
	deadline, _ := ctx.Deadline()
	limit := time.Until(deadline)
	cfg := rc.Config{Device: dev, Timeout: limit, Logger: log, Job: name, Program: "rdma_lab doctor", Params: kit.Params{}}
	cfg.Prepare = func(c *rc.Conn) error {
		if err := kit.CheckSize(cfg.Params, c.PeerHello().Params); err != nil {
			return err
		}
		return endpoint.Prepare(c)
	}
	endpoint.Configure(&cfg)
	conn, err := rc.Dial(ctx, to.String(), cfg)
	if err != nil {
		return err
	}
	return kit.Run(ctx, conn, endpoint, limit, log)
}
