// The exchange of perftest's programs, ib_send_bw, ib_write_lat and their kind, as
// bytes. It is a row of swaps: of every message the client writes its own and reads
// the server's, and the server reads the client's and writes its own. They are
//
//	16 bytes  version       "6.06", filled up with NULs
//	 4        page size     big-endian; messages of up to half a page go round in one
//	 4        cache line    big-endian; each of these messages begins at one
//	 2        path MTU      its code as a digit, 1 (256) to 5 (4096), and a NUL
//	108       key           of each queue pair, as text, and again whenever the ends meet
//	 8 × 5    report        big-endian, each value a swap of its own
//	 5        "done", NUL   written by both, read by none
//
// docs/c-programs.md has the order of the steps. The exchange has no message size, number
// of messages, duration or operation: both ends need the same flags.

package perftest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
)

// The sizes of the messages, in bytes.
const (
	versionSize = 16            // bytes of the message with the version
	numberSize  = 4             // of a page size or a cache line
	mtuSize     = 2             // of a path MTU
	keySize     = 108           // of the line with a queue pair, with its NUL
	valueSize   = 8             // of each value of a report
	reportSize  = 5 * valueSize // of all its values
)

const (
	// Version is the one version of the exchange that is spoken here: that
	// of Debian 12's package, perftest 4.5+0.17.
	exchangeVersion = "6.06"

	// shortKeySize is the bytes of a key without a GID, which a program
	// without -x sends on InfiniBand. It is not spoken here; but who reads no more
	// than these at first is not left waiting: see [decodeKey].
	shortKeySize = 59

	// Done is the last word of both ends.
	doneWord = "done\x00"
)

// qpKey is what an end sends of a queue pair.
type qpKey struct {
	LID      uint16   // InfiniBand local identifier; 0 on RoCE
	OutReads uint16   // READs and atomics in flight, of each direction
	QPN, PSN uint32   // 24 bits
	RKey     uint32   // of the memory at Addr
	Addr     uint64   // where the peer's WRITEs, READs and atomics begin
	GID      [16]byte // raw, in network order
	SRQN     uint32   // 0 but for XRC and DC
}

// bandwidthReport is what an end sends of its bandwidth.
type bandwidthReport struct {
	Size       uint64  // bytes of each message
	Iterations uint64  // of all queue pairs
	Peak       float64 // 2^20 bytes a second (or 10^9 bits, with --report_gbits); 0 if it was not looked for
	Average    float64 // the same
	Rate       float64 // 10^6 messages a second
}

const (
	program    = "perftest (ib_send_bw and the like)"
	tryVersion = "install Debian 12's perftest there, 4.5+0.17 (ib_send_bw --version tells " + exchangeVersion + ")"
)

// appendVersion appends the version's message.
func appendVersion(dst []byte) []byte {
	var m [versionSize]byte
	copy(m[:], exchangeVersion)
	return append(dst, m[:]...)
}

var versionPattern = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}\x00*$`)

// decodeVersion checks the peer's version. The error for another one matches
// [oob.ErrVersion], for what is no version [oob.ErrForeignPeer].
func decodeVersion(data []byte) error {
	if len(data) != versionSize || !versionPattern.Match(data) {
		return peer.Unexpected(program, data, "no version")
	}
	if v := strings.TrimRight(string(data), "\x00"); v != exchangeVersion {
		return &oob.ProtocolError{
			Problem: fmt.Sprintf("the peer is perftest's version %s of the exchange, and this end speaks %s alone", v, exchangeVersion),
			Try:     tryVersion, Err: oob.ErrVersion,
		}
	}
	return nil
}

// appendNumber appends a page size or the size of a cache line, in bytes.
func appendNumber(dst []byte, n int) ([]byte, error) {
	if err := checkNumber(int64(n)); err != nil {
		return dst, err
	}
	return binary.BigEndian.AppendUint32(dst, uint32(n)), nil
}

// decodeNumber reads one.
func decodeNumber(data []byte) (int, error) {
	if len(data) != numberSize {
		return 0, peer.Unexpected(program, data, "no size of a page or of a cache line")
	}
	n := int64(int32(binary.BigEndian.Uint32(data)))
	if err := checkNumber(n); err != nil {
		return 0, peer.Unexpected(program, data, err.Error())
	}
	return int(n), nil
}

// checkNumber wants a power of two that memory can be laid out by: no host has
// larger pages, and the peer's number decides how much memory is taken.
func checkNumber(n int64) error {
	const most = 64 << 10
	if n < 1 || n > most || n&(n-1) != 0 {
		return errors.Errorf("%d is no size of a page or of a cache line", n)
	}
	return nil
}

// appendMTU appends the message of a path MTU in bytes.
func appendMTU(dst []byte, mtu int) ([]byte, error) {
	for code := 1; code <= 5; code++ {
		if mtu == 128<<code {
			return append(dst, byte('0'+code), 0), nil
		}
	}
	return dst, errors.Errorf("path MTU %d is not 256, 512, 1024, 2048 or 4096 bytes", mtu)
}

// decodeMTU reads a path MTU, in bytes.
func decodeMTU(data []byte) (int, error) {
	if len(data) != mtuSize || data[0] < '1' || data[0] > '5' || data[1] != 0 {
		return 0, peer.Unexpected(program, data, "no path MTU")
	}
	return 128 << (data[0] - '0'), nil
}

// appendKey appends the key of a queue pair. It fails, leaving dst as it was,
// if a number has over 24 bits or there is no QPN.
func appendKey(dst []byte, k qpKey) ([]byte, error) {
	if err := peer.CheckQPN(k.QPN); err != nil {
		return dst, err
	}
	if k.PSN > peer.Max24 {
		return dst, errors.Errorf("PSN 0x%x does not fit in 24 bits", k.PSN)
	}
	dst = fmt.Appendf(dst, "%04x:%04x:%06x:%06x:%08x:%016x:", k.LID, k.OutReads, k.QPN, k.PSN, k.RKey, k.Addr)
	for _, b := range k.GID {
		dst = fmt.Appendf(dst, "%02x:", b)
	}
	return fmt.Appendf(dst, "%08x:\x00", k.SRQN), nil
}

var (
	keyPattern      = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{8}):([0-9a-f]{16}):((?:[0-9a-f]{2}:){16})([0-9a-f]{8}):\x00$`)
	shortKeyPattern = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{4}:[0-9a-f]{6}:[0-9a-f]{6}:[0-9a-f]{8}:[0-9a-f]{16}:[0-9a-f]{8}\x00$`)
)

// keyContinues says whether the first shortKeySize bytes of a key may
// be those of a longer one, so that the rest is to be waited for. Give
// [decodeKey] all that came.
func keyContinues(first []byte) bool {
	return len(first) == shortKeySize && first[shortKeySize-1] != 0
}

// decodeKey reads the key of a queue pair.
func decodeKey(data []byte) (qpKey, error) {
	if shortKeyPattern.Match(data) {
		return qpKey{}, &oob.ProtocolError{
			Problem: "the peer's key has no GID: " + oob.Quote(data),
			Try:     "start it with -x and the index of a GID, as in ib_send_bw -x 1",
		}
	}
	parts := keyPattern.FindSubmatch(data)
	if parts == nil {
		return qpKey{}, &oob.ProtocolError{
			Problem: fmt.Sprintf("what came is no key of %s: %s", program, oob.Quote(data[:min(len(data), 32)])),
			Try:     "make sure that the program there does the same test and has the same flags",
			Err:     oob.ErrForeignPeer,
		}
	}
	number := func(i int) uint64 {
		n, _ := strconv.ParseUint(string(parts[i]), 16, 64) // the pattern leaves nothing to fail
		return n
	}
	k := qpKey{
		LID: uint16(number(1)), OutReads: uint16(number(2)), QPN: uint32(number(3)), PSN: uint32(number(4)),
		RKey: uint32(number(5)), Addr: number(6), SRQN: uint32(number(8)),
	}
	_, _ = hex.Decode(k.GID[:], bytes.ReplaceAll(parts[7], []byte(":"), nil))
	if err := peer.CheckQPN(k.QPN); err != nil {
		return qpKey{}, peer.Unexpected(program, data, err.Error())
	}
	return k, nil
}

// appendReport appends a report's values, one behind the other; each is to be
// swapped by itself.
func appendReport(dst []byte, r bandwidthReport) ([]byte, error) {
	if err := r.check(); err != nil {
		return dst, err
	}
	return binary.Append(dst, binary.BigEndian, r)
}

// decodeReport reads a report's values.
func decodeReport(data []byte) (bandwidthReport, error) {
	var r bandwidthReport
	if len(data) != reportSize {
		return r, peer.Unexpected(program, data, "no report")
	}
	_, _ = binary.Decode(data, binary.BigEndian, &r) // the size is right
	if err := r.check(); err != nil {
		return bandwidthReport{}, peer.Unexpected(program, data, err.Error())
	}
	return r, nil
}

// check refuses figures that are none: a terminal is to show them.
func (r bandwidthReport) check() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"peak bandwidth", r.Peak}, {"average bandwidth", r.Average}, {"message rate", r.Rate}} {
		if math.IsNaN(f.value) || f.value < 0 || f.value > 1e12 {
			return errors.Errorf("a %s of %v cannot be", f.name, f.value)
		}
	}
	const most = 1 << 62
	if r.Size > most || r.Iterations > most {
		return errors.Errorf("%d messages of %d bytes cannot be", r.Iterations, r.Size)
	}
	return nil
}
