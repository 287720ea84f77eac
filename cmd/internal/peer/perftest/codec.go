// The exchange of perftest's programs (ib_send_bw, ib_write_lat and others) as bytes. It is a
// series of swaps: the client writes its message and reads the server's; the server reads the
// client's message and writes its own. The messages are
//
//	16 bytes  version       "6.06", padded with NULs
//	 4        page size     big-endian; messages of up to half a page share one page
//	 4        cache line    big-endian; each of these messages begins at a cache line
//	 2        path MTU      its code as a digit, 1 (256) to 5 (4096), and a NUL
//	108       key           text, one per queue pair; the first again whenever the ends meet
//	 8 × 5    report        big-endian; each value is a separate swap
//	 5        "done", NUL   written by both ends, read by none
//
// In this order: version, sizes, path MTU; a key per queue pair; INIT→RTR→RTS (an end whose peer
// alone measures stays in RTR); a key per queue pair once more; the measurement; the report, if one
// end alone measures or with -b, but not of SEND with -D; "done". Where the ends only wait for each
// other, they swap the first key: latency except SEND, before the first keys; SEND, after RTS; all
// others, after the second keys; SEND and -b, before each size; -b -a of WRITE and READ, and SEND's
// bandwidth with -a, after each size; at the end except of WRITE's latency, and there before a report
// of the client's too. The ends do not exchange the message size, the number of messages, the
// duration or the operation: both need the same flags.

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

	"github.com/rawverbs/rawverbs/cmd/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
)

// The sizes of the messages, in bytes.
const (
	versionSize = 16            // the version
	numberSize  = 4             // a page size or a cache line
	mtuSize     = 2             // a path MTU
	keySize     = 108           // the key of a queue pair, with its NUL
	valueSize   = 8             // one value of a report
	reportSize  = 5 * valueSize // all values of a report
)

const (
	// exchangeVersion is the only supported version of the exchange: that of Debian 12's
	// package, perftest 4.5+0.17.
	exchangeVersion = "6.06"

	// shortKeySize is the size of a key without a GID, which a program without -x sends on
	// InfiniBand. Such keys are not supported. This end first reads only that many bytes, so
	// that it does not wait forever for the rest of one: see [decodeKey].
	shortKeySize = 59

	// doneWord is the last message of both ends.
	doneWord = "done\x00"
)

// qpKey is the description of a queue pair that an end sends.
type qpKey struct {
	LID      uint16   // InfiniBand local identifier; 0 on RoCE
	OutReads uint16   // READs and atomics in flight, in each direction
	QPN, PSN uint32   // 24 bits
	RKey     uint32   // key of the memory at Addr
	Addr     uint64   // begin of the memory for the peer's WRITEs, READs and atomics
	GID      [16]byte // raw, in network order
	SRQN     uint32   // 0, except for XRC and DC
}

// bandwidthReport is the report of an end's bandwidth.
type bandwidthReport struct {
	Size       uint64  // bytes per message
	Iterations uint64  // messages of all queue pairs
	Peak       float64 // 2^20 bytes per second (10^9 bits with --report_gbits); 0 if not measured
	Average    float64 // in the same unit
	Rate       float64 // 10^6 messages per second
}

const (
	program    = "perftest (ib_send_bw and others)"
	tryVersion = "install Debian 12's perftest there, 4.5+0.17 (ib_send_bw --version prints " + exchangeVersion + ")"
)

func appendVersion(dst []byte) []byte {
	var m [versionSize]byte
	copy(m[:], exchangeVersion)
	return append(dst, m[:]...)
}

var versionPattern = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}\x00*$`)

// decodeVersion checks the peer's version. The error matches [oob.ErrVersion] for another
// version, and [oob.ErrForeignPeer] for anything else.
func decodeVersion(data []byte) error {
	if len(data) != versionSize || !versionPattern.Match(data) {
		return peer.Unexpected(program, data, "not a version")
	}
	if v := strings.TrimRight(string(data), "\x00"); v != exchangeVersion {
		return &oob.ProtocolError{
			Problem: fmt.Sprintf("the peer speaks version %s of perftest's exchange, but this end supports only %s", v, exchangeVersion),
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

// decodeNumber decodes a page size or the size of a cache line.
func decodeNumber(data []byte) (int, error) {
	if len(data) != numberSize {
		return 0, peer.Unexpected(program, data, "not the size of a page or of a cache line")
	}
	n := int64(int32(binary.BigEndian.Uint32(data)))
	if err := checkNumber(n); err != nil {
		return 0, peer.Unexpected(program, data, err.Error())
	}
	return int(n), nil
}

// checkNumber returns an error unless n is a power of two that can be the size of a page. No
// host has larger pages, and the peer's number determines how much memory this end allocates.
func checkNumber(n int64) error {
	const most = 64 << 10
	if n < 1 || n > most || n&(n-1) != 0 {
		return errors.Errorf("%d is not the size of a page or of a cache line", n)
	}
	return nil
}

// appendMTU appends the message with a path MTU in bytes.
func appendMTU(dst []byte, mtu int) ([]byte, error) {
	for code := 1; code <= 5; code++ {
		if mtu == 128<<code {
			return append(dst, byte('0'+code), 0), nil
		}
	}
	return dst, errors.Errorf("path MTU %d is not 256, 512, 1024, 2048 or 4096 bytes", mtu)
}

// decodeMTU returns a path MTU in bytes.
func decodeMTU(data []byte) (int, error) {
	if len(data) != mtuSize || data[0] < '1' || data[0] > '5' || data[1] != 0 {
		return 0, peer.Unexpected(program, data, "not a path MTU")
	}
	return 128 << (data[0] - '0'), nil
}

// appendKey appends the key of a queue pair. It returns dst unchanged and an error if a number
// has more than 24 bits or the QPN is 0.
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

// keyContinues reports whether the first shortKeySize bytes of a key may be those of a longer
// key, so that the rest must be read too. In either case, pass all bytes to [decodeKey].
func keyContinues(first []byte) bool {
	return len(first) == shortKeySize && first[shortKeySize-1] != 0
}

// decodeKey decodes the key of a queue pair.
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
			Problem: fmt.Sprintf("the peer sent something that is not a key of %s: %s", program, oob.Quote(data[:min(len(data), 32)])),
			Try:     "run the same test with the same flags at both ends",
			Err:     oob.ErrForeignPeer,
		}
	}
	number := func(i int) uint64 {
		n, _ := strconv.ParseUint(string(parts[i]), 16, 64) // cannot fail: the pattern has checked the digits
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

// appendReport appends the values of a report. Each value must be swapped separately.
func appendReport(dst []byte, r bandwidthReport) ([]byte, error) {
	if err := r.check(); err != nil {
		return dst, err
	}
	return binary.Append(dst, binary.BigEndian, r)
}

func decodeReport(data []byte) (bandwidthReport, error) {
	var r bandwidthReport
	if len(data) != reportSize {
		return r, peer.Unexpected(program, data, "not a report")
	}
	_, _ = binary.Decode(data, binary.BigEndian, &r) // cannot fail: the size is right
	if err := r.check(); err != nil {
		return bandwidthReport{}, peer.Unexpected(program, data, err.Error())
	}
	return r, nil
}

// check rejects values that are not valid figures, because they are printed on a terminal.
func (r bandwidthReport) check() error {
	for _, f := range []struct {
		name  string
		value float64
	}{{"peak bandwidth", r.Peak}, {"average bandwidth", r.Average}, {"message rate", r.Rate}} {
		if math.IsNaN(f.value) || f.value < 0 || f.value > 1e12 {
			return errors.Errorf("a %s of %v is not possible", f.name, f.value)
		}
	}
	const most = 1 << 62
	if r.Size > most || r.Iterations > most {
		return errors.Errorf("%d messages of %d bytes are not possible", r.Iterations, r.Size)
	}
	return nil
}
