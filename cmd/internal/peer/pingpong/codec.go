// The exchange of libibverbs' example programs, ibv_rc_pingpong, ibv_uc_pingpong,
// ibv_ud_pingpong and ibv_srq_pingpong, as bytes. One queue pair is a line of text
// with a NUL behind it,
//
//	lid:qpn:psn:gid     0000:000011:8f3a2b:00000000000000000000ffff0a000001
//
// and the conversation is
//
//	client   its line
//	server   its line, once its queue pair is in RTS
//	client   "done", with a NUL; both close
//
// The srq program sends 256 lines instead of one. Lines without a queue pair come last
// and are all zero. The exchange has no message size, number of messages, path MTU or
// type of the queue pair: both ends need the same flags.

package pingpong

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/peer"
	"github.com/rawverbs/rawverbs/oob"
)

const (
	// lineSize is the size of one line in bytes, with its NUL.
	lineSize = 52

	// srqLines is the number of lines that the srq program always sends.
	srqLines = 256
	// maxQPs is the maximum number of lines with a queue pair.
	maxQPs = 255

	// doneWord is the client's last message.
	doneWord = "done\x00"
)

// appendLine appends the line of one queue pair: its LID, QPN, PSN and GID. It returns dst
// unchanged and an error if a number has more than 24 bits or the QPN is 0.
func appendLine(dst []byte, e oob.Endpoint) ([]byte, error) {
	if err := peer.CheckQPN(e.QPN); err != nil {
		return dst, errors.WithMessage(err, "a pingpong line")
	}
	if e.PSN > peer.Max24 {
		return dst, errors.Errorf("a pingpong line: PSN 0x%x does not fit in 24 bits", e.PSN)
	}
	return appendAnyLine(dst, e), nil
}

// appendAnyLine is like appendLine, but also appends a line without a queue pair.
func appendAnyLine(dst []byte, e oob.Endpoint) []byte {
	return fmt.Appendf(dst, "%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID)
}

// appendSRQLines appends the 256 lines of the srq program for 1 to maxQPs
// queue pairs.
func appendSRQLines(dst []byte, list []oob.Endpoint) ([]byte, error) {
	if len(list) < 1 || len(list) > maxQPs {
		return dst, errors.Errorf("%d queue pairs are not possible with ibv_srq_pingpong; try: 1 to %d", len(list), maxQPs)
	}
	lines := make([]byte, 0, srqLines*lineSize)
	for _, e := range list {
		var err error
		if lines, err = appendLine(lines, e); err != nil {
			return dst, err
		}
	}
	for range srqLines - len(list) {
		lines = appendAnyLine(lines, oob.Endpoint{})
	}
	return append(dst, lines...), nil
}

// startPattern matches the beginning of a line, and of no other known program's message.
var startPattern = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{6}:`)

// startSize is the number of bytes that checkStart needs.
const startSize = len("0000:000011:")

// checkStart returns an error for another kind of peer, given its first startSize bytes or
// more, so that this end does not wait for the rest of a line. The error is a
// [*oob.ProtocolError], which quotes the bytes.
func checkStart(first []byte) error {
	if startPattern.Match(first) {
		return nil
	}
	return peer.Unexpected("ibv_rc_pingpong or a similar program", first, "not a line")
}

var linePattern = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\x00$`)

// decodeLine reads a line: the oob.Endpoint has its LID, QPN, PSN and GID. Errors are
// [*oob.ProtocolError]. A line that is too short may be all that the peer has sent.
func decodeLine(line []byte) (oob.Endpoint, error) {
	e, err := decodeAnyLine(line)
	if err == nil && e.QPN == 0 {
		return oob.Endpoint{}, unexpected("its queue pair number is 0", line)
	}
	return e, err
}

// decodeAnyLine is like decodeLine, but also decodes a line without a queue pair.
func decodeAnyLine(line []byte) (oob.Endpoint, error) {
	if err := checkStart(line); err != nil {
		return oob.Endpoint{}, err
	}
	if len(line) != lineSize {
		return oob.Endpoint{}, unexpected(fmt.Sprintf("it has %d bytes instead of %d", len(line), lineSize), line)
	}
	field := linePattern.FindSubmatch(line)
	if field == nil {
		return oob.Endpoint{}, unexpected("it is not lid:qpn:psn:gid, of 4, 6, 6 and 32 hexadecimal digits, with a NUL", line)
	}
	e := oob.Endpoint{LID: uint16(hexNumber(field[1])), QPN: hexNumber(field[2]), PSN: hexNumber(field[3])}
	_, _ = hex.Decode(e.GID[:], field[4]) // cannot fail: the pattern has checked the digits
	return e, nil
}

// hexNumber returns the value of up to eight digits that the pattern has checked.
func hexNumber(digits []byte) uint32 {
	n, _ := strconv.ParseUint(string(digits), 16, 32)
	return uint32(n)
}

// decodeSRQLines decodes the 256 lines of the srq program and returns those with a queue pair.
// Errors are [*oob.ProtocolError].
func decodeSRQLines(lines []byte) ([]oob.Endpoint, error) {
	if err := checkStart(lines); err != nil {
		return nil, err
	}
	if len(lines) == lineSize {
		return nil, &oob.ProtocolError{
			Problem: fmt.Sprintf("the peer sent one line, %s, as ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong do; ibv_srq_pingpong sends %d", oob.Quote(lines), srqLines),
			Try:     "start the same program's counterpart at both ends",
		}
	}
	if len(lines) != srqLines*lineSize {
		return nil, unexpected(fmt.Sprintf("the lines have %d bytes instead of %d of %d each", len(lines), srqLines, lineSize), lines[:min(len(lines), lineSize)])
	}
	var list []oob.Endpoint
	for i := range srqLines {
		line := lines[i*lineSize:][:lineSize]
		e, err := decodeAnyLine(line)
		switch {
		case err != nil:
			return nil, errors.WithMessagef(err, "line %d of %d", i+1, srqLines)
		case bytes.Equal(line, noLine):
			continue
		case e.QPN == 0 || len(list) < i:
			return nil, unexpected(fmt.Sprintf("line %d of %d has no queue pair, or follows a line without one", i+1, srqLines), line)
		}
		e.Index = uint8(i)
		list = append(list, e)
	}
	if len(list) < 1 || len(list) > maxQPs {
		return nil, unexpected(fmt.Sprintf("%d of the %d lines have a queue pair, expected 1 to %d", len(list), srqLines, maxQPs), lines[:lineSize])
	}
	return list, nil
}

// noLine is a line without a queue pair.
var noLine = appendAnyLine(nil, oob.Endpoint{})

// checkDone checks the client's last message. The error is a [*oob.ProtocolError].
func checkDone(word []byte) error {
	switch {
	case string(word) == doneWord:
		return nil
	case len(word) > 0 && bytes.HasPrefix(noLine, word), wordPattern.Match(word):
		return &oob.ProtocolError{
			Problem: fmt.Sprintf("after its line the peer sent %s, as ibv_srq_pingpong does, and not \"done\"", oob.Quote(word)),
			Try:     "start the same program's counterpart at both ends",
		}
	}
	return unexpected(`it is not the client's last message, "done" with a NUL`, word)
}

// wordPattern matches a beginning of a line that is as long as doneWord.
var wordPattern = regexp.MustCompile(`^[0-9a-f]{4}:$`)

func unexpected(problem string, came []byte) error {
	return &oob.ProtocolError{
		Problem: fmt.Sprintf("the peer sent %s, and %s", oob.Quote(came), problem),
		Try:     "use rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong or ibv_srq_pingpong there, or this program",
	}
}
