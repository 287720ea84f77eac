//go:build !linux || !cgo || nolibibverbs

// The C wall on other systems and without cgo: libibverbs is missing.

package verbs

import (
	"syscall"

	"github.com/pkg/errors"
)

func init() { Register(ibvProvider{}) }

type ibvProvider struct{}

func (ibvProvider) Name() string { return "libibverbs" }

func (ibvProvider) Devices() ([]DeviceInfo, error) { return nil, errNoLibibverbs }

func (ibvProvider) Open(string) (ProviderDevice, error) { return nil, errNoLibibverbs }

// errNoLibibverbs is errors.ErrUnsupported, through its errno.
var errNoLibibverbs = errors.WithMessage(syscall.EOPNOTSUPP, "this binary was built without cgo or not for Linux; try: rebuild it with CGO_ENABLED=1 and libibverbs-dev")
