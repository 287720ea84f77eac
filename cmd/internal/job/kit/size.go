// Sizes in bytes, as people write them.

package kit

import (
	"math"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/docker/go-units"

	"github.com/rawverbs/rawverbs/cmd/internal/usage"
)

// Size is a number of bytes that a flag takes as 4096, 64K, 1M, 10G or 1T; the
// letters are powers of 1024.
type Size int64

// LargestSize is the largest Size that a flag takes: 1 EiB, far below the largest int64.
const LargestSize = 1 << 60

// String returns the number, with a letter if the value stays exact: "64K", "4097".
func (s Size) String() string {
	for letter, unit := range map[string]Size{"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10} {
		if s != 0 && s%unit == 0 && s/unit < 1024 {
			return strconv.FormatInt(int64(s/unit), 10) + letter
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Set parses the value of a flag.
func (s *Size) Set(text string) error {
	n, err := units.RAMInBytes(strings.TrimSpace(text))
	if err == nil && (n < 0 || n > LargestSize) {
		return errors.Errorf("%q is too large; try: at most %v", text, Size(LargestSize))
	}
	if err != nil {
		return errors.Errorf("%q is not a size; try: a number of bytes such as 4096, 64K, 1M or 10G", text)
	}
	*s = Size(n)
	return nil
}

// Addressable refuses more bytes than a slice can have on systems whose int has 32 bits.
func (s Size) Addressable(flag string) error {
	if s > math.MaxInt {
		return usage.Errorf("a 32-bit program cannot have %v bytes; try: %s 1G", s, flag)
	}
	return nil
}

// Type returns the name of the value in --help.
func (*Size) Type() string { return "size" }
