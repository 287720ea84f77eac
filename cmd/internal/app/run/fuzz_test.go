package run

import (
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
	"github.com/rawverbs/rawverbs/rc"
)

// FuzzHello makes the server's side of each job from the parameters of a stranger's hello. The job refuses
// them and says why, or asks for a bounded share of the memory.
func FuzzHello(f *testing.F) {
	const largest = 64 << 20
	for i := range jobs {
		f.Add(byte(i), "size=4096")
		f.Add(byte(i), "bytes=1048576\nchunk=4096\noutstanding=16\nqps=2\nseed=1\nop=write\nsize=65536")
		f.Add(byte(i), "bytes=65536\nqps=1\niters=1000\ntx_depth=128\nrx_depth=512\ncq_mod=100\npost_list=1\ninline=0\nduration_ms=0\nmargin_ms=0\nbidirectional=1")
		f.Add(byte(i), "size=9223372036854775807\nqps=-1\nbytes=1e9\nop=\nchunk=0\nouter=\n")
		f.Add(byte(i), "name=../../etc/passwd\nbytes=99999999999999999\nchunk=1\noutstanding=4294967296\nqps=65536\nop=read\nseed=x")
	}
	f.Fuzz(func(t *testing.T, which byte, text string) {
		kind := jobs[int(which)%len(jobs)]
		params := kit.Params{}
		for line := range strings.Lines(text) {
			if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
				params[key] = value
			}
		}
		side := kind.Server(pflag.NewFlagSet(kind.Name, pflag.ContinueOnError))
		endpoint, err := side.NewEndpoint(kit.Session{Logger: slog.New(slog.DiscardHandler), Port: 1, MTU: 1024, Params: params, MaxSize: largest})
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Errorf("%s refuses %q and does not say why", kind.Name, text)
			}
			return
		}
		if c, ok := endpoint.(io.Closer); ok {
			defer c.Close()
		}
		var cfg rc.Config
		configure(endpoint, &cfg)
		if b, ok := endpoint.(kit.Budgeter); ok && (b.Memory() < 0 || b.Memory() > 64*largest) {
			t.Errorf("%s with %q asks for %d bytes", kind.Name, text, b.Memory())
		}
		need := memoryOf(&cfg, endpoint, largest, true)
		if need < eachClient || need > math.MaxInt64/1024 {
			t.Errorf("%s with %q needs %d bytes", kind.Name, text, need)
		}
		if cfg.QPs < 0 || cfg.QPs > 1024 || cfg.Cap.MaxSendWR > 1<<16 || cfg.Cap.MaxRecvWR > 1<<16 {
			t.Errorf("%s with %q makes %d queue pairs of %+v", kind.Name, text, cfg.QPs, cfg.Cap)
		}
	})
}
