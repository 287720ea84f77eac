package verbs

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"
)

// withProviders runs a test with these providers only.
func withProviders(t *testing.T, list ...Provider) {
	providers.Lock()
	defer providers.Unlock()
	old := providers.list
	providers.list = list
	t.Cleanup(func() {
		providers.Lock()
		defer providers.Unlock()
		providers.list = old
	})
}

// kernelOnly stands for libibverbs: its devices, or its error.
type kernelOnly struct {
	devices []DeviceInfo
	err     error
}

func (kernelOnly) Name() string                        { return "libibverbs" }
func (p kernelOnly) Devices() ([]DeviceInfo, error)    { return p.devices, p.err }
func (kernelOnly) Open(string) (ProviderDevice, error) { return nil, syscall.ENODEV }

// TestDevicesWithOneName: the first provider's device is the one that Open opens.
func TestDevicesWithOneName(t *testing.T) {
	first := kernelOnly{devices: []DeviceInfo{{Name: "soft0", Provider: "libibverbs"}, {Name: "rxe0", Provider: "libibverbs"}}}
	withProviders(t, first, kernelOnly{devices: []DeviceInfo{{Name: "soft0", Provider: "softroce"}}})
	got, err := Devices()
	if err != nil || !slices.Equal(got, first.devices) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestOpenNamesTheMissingImport(t *testing.T) {
	const line = `import _ "github.com/rawverbs/rawverbs/softroce"`
	lists := map[string]Provider{
		"no RDMA core": kernelOnly{err: syscall.ENOSYS},
		"no device":    kernelOnly{},
		"a device":     kernelOnly{devices: []DeviceInfo{{Name: "mlx5_0", Provider: "libibverbs"}}},
	}
	for list, provider := range lists {
		for _, name := range []string{"soft0", "soft:eth0"} {
			t.Run(name+", "+list, func(t *testing.T) {
				withProviders(t, provider)
				_, err := Open(name)
				says(t, err, []string{"on " + name, line}, "modprobe", "mlx5_0")
				if !errors.Is(err, syscall.ENODEV) {
					t.Errorf("%v is not ENODEV", err)
				}
			})
		}
	}
	t.Run("no provider at all", func(t *testing.T) {
		withProviders(t)
		for _, name := range []string{"", "rxe0", "soft0"} {
			_, err := Open(name)
			says(t, err, []string{line, "CGO_ENABLED=1", "no provider"}, "modprobe")
			if !errors.Is(err, syscall.ENODEV) {
				t.Errorf("%v is not ENODEV", err)
			}
		}
	})
	t.Run("any device, without devices", func(t *testing.T) {
		withProviders(t, kernelOnly{err: syscall.ENOSYS})
		_, err := Open("")
		says(t, err, []string{"modprobe rdma_rxe", line})
	})
	t.Run("a name that does not exist", func(t *testing.T) {
		withProviders(t, lists["a device"])
		_, err := Open("mlx5_1")
		says(t, err, []string{"mlx5_0"}, "import")
	})
}

// paperProvider opens the paper device, which reports how it calls C.
type paperProvider struct{ *paperDevice }

func (paperProvider) Name() string { return "paper" }
func (paperProvider) Devices() ([]DeviceInfo, error) {
	return []DeviceInfo{{Name: "paper0", Provider: "paper"}}, nil
}
func (p paperProvider) Open(string) (ProviderDevice, error) { return p, nil }
func (paperProvider) calls() string                         { return "calls by post" }

func TestOpenTellsHowCallsAreMade(t *testing.T) {
	paper, _ := newPaperDevice()
	withProviders(t, paperProvider{paper.p.(*paperDevice)})
	var log bytes.Buffer
	d := must[*Device](t)(OpenWith("", OpenOptions{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}))
	defer d.Close()
	if want := `msg=ibv_open_device device=paper0 object=device`; !strings.Contains(log.String(), want) || !strings.Contains(log.String(), `detail="paper, calls by post"`) {
		t.Errorf("logged: %s", log.String())
	}
}
