package oob

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
// The srq program sends 256 lines in place of one; those of queue pairs that there
// are not, behind the others, are all zero. Nothing tells the message's size, their
// number, the path MTU or the queue pair's type: both ends must be given the same.

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"

	"github.com/pkg/errors"
)

const (
	// PingpongLineSize is the bytes of one line, with its NUL.
	PingpongLineSize = 52

	// PingpongSRQLines is how many lines the srq program sends, whatever it uses.
	PingpongSRQLines = 256
	// MaxPingpongQPs is how many of them can be of queue pairs.
	MaxPingpongQPs = 255

	// PingpongDone is the client's last word.
	PingpongDone = "done\x00"
)

// AppendPingpong appends the line of one queue pair: its LID, QPN, PSN and GID. It
// fails, leaving dst as it was, if a number has over 24 bits or there is no QPN.
func AppendPingpong(dst []byte, e Endpoint) ([]byte, error) {
	if err := checkQPN(e.QPN); err != nil {
		return dst, errors.WithMessage(err, "oob: a pingpong line")
	}
	if e.PSN > max24 {
		return dst, errors.Errorf("oob: a pingpong line: PSN 0x%x does not fit in 24 bits", e.PSN)
	}
	return appendPingpong(dst, e), nil
}

func appendPingpong(dst []byte, e Endpoint) []byte {
	return fmt.Appendf(dst, "%04x:%06x:%06x:%x\x00", e.LID, e.QPN, e.PSN, e.GID)
}

// AppendPingpongSRQ appends the 256 lines of the srq program for 1 to MaxPingpongQPs
// queue pairs.
func AppendPingpongSRQ(dst []byte, list []Endpoint) ([]byte, error) {
	if len(list) < 1 || len(list) > MaxPingpongQPs {
		return dst, errors.Errorf("oob: %d queue pairs cannot be told to ibv_srq_pingpong; try: 1 to %d", len(list), MaxPingpongQPs)
	}
	lines := make([]byte, 0, PingpongSRQLines*PingpongLineSize)
	for _, e := range list {
		var err error
		if lines, err = AppendPingpong(lines, e); err != nil {
			return dst, err
		}
	}
	for range PingpongSRQLines - len(list) {
		lines = appendPingpong(lines, Endpoint{})
	}
	return append(dst, lines...), nil
}

// pingpongStart is what a line begins with, and what no other known peer does.
var pingpongStart = regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{6}:`)

// PingpongStartSize is how many bytes CheckPingpongStart judges.
const PingpongStartSize = len("0000:000011:")

// CheckPingpongStart tells a line from another kind of peer by its first
// PingpongStartSize bytes or more, so that nobody waits for the rest of what is no
// line. The error is a [*ProtocolError], which quotes what is given.
func CheckPingpongStart(first []byte) error {
	if pingpongStart.Match(first) {
		return nil
	}
	e := describeForeign(first)
	e.Problem += "; a line of ibv_rc_pingpong or one of its kind was expected"
	return e
}

var pingpongLine = regexp.MustCompile(`^([0-9a-f]{4}):([0-9a-f]{6}):([0-9a-f]{6}):([0-9a-f]{32})\x00$`)

// DecodePingpong reads a line: the Endpoint has the LID, QPN, PSN and GID that were
// told. Errors are [*ProtocolError]; one that is short may be of a peer that sent no
// more.
func DecodePingpong(line []byte) (Endpoint, error) {
	e, err := decodePingpong(line)
	if err == nil && e.QPN == 0 {
		return Endpoint{}, badPingpong("it tells of no queue pair: its number is 0", line)
	}
	return e, err
}

func decodePingpong(line []byte) (Endpoint, error) {
	if err := CheckPingpongStart(line); err != nil {
		return Endpoint{}, err
	}
	if len(line) != PingpongLineSize {
		return Endpoint{}, badPingpong(fmt.Sprintf("it has %d bytes and not %d", len(line), PingpongLineSize), line)
	}
	field := pingpongLine.FindSubmatch(line)
	if field == nil {
		return Endpoint{}, badPingpong("it is not lid:qpn:psn:gid, of 4, 6, 6 and 32 hexadecimal digits, with a NUL", line)
	}
	e := Endpoint{LID: uint16(hexNumber(field[1])), QPN: hexNumber(field[2]), PSN: hexNumber(field[3])}
	_, _ = hex.Decode(e.GID[:], field[4]) // digits, by the pattern
	return e, nil
}

// hexNumber is the value of up to eight digits, which the pattern has checked.
func hexNumber(digits []byte) uint32 {
	n, _ := strconv.ParseUint(string(digits), 16, 32)
	return uint32(n)
}

// DecodePingpongSRQ reads the 256 lines of the srq program and returns those of the
// queue pairs that there are. Errors are [*ProtocolError].
func DecodePingpongSRQ(lines []byte) ([]Endpoint, error) {
	if err := CheckPingpongStart(lines); err != nil {
		return nil, err
	}
	if len(lines) == PingpongLineSize {
		return nil, &ProtocolError{
			Problem: fmt.Sprintf("the peer sent one line, %s, as ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong do; ibv_srq_pingpong sends %d", quote(lines), PingpongSRQLines),
			Try:     "start the same program's counterpart at both ends",
		}
	}
	if len(lines) != PingpongSRQLines*PingpongLineSize {
		return nil, badPingpong(fmt.Sprintf("the lines have %d bytes and not %d of %d each", len(lines), PingpongSRQLines, PingpongLineSize), lines[:min(len(lines), PingpongLineSize)])
	}
	var list []Endpoint
	for i := range PingpongSRQLines {
		line := lines[i*PingpongLineSize:][:PingpongLineSize]
		e, err := decodePingpong(line)
		switch {
		case err != nil:
			return nil, errors.WithMessagef(err, "line %d of %d", i+1, PingpongSRQLines)
		case bytes.Equal(line, noPingpong):
			continue
		case e.QPN == 0 || len(list) < i:
			return nil, badPingpong(fmt.Sprintf("line %d of %d tells of no queue pair, or follows one that does not", i+1, PingpongSRQLines), line)
		}
		e.Index = uint8(i)
		list = append(list, e)
	}
	if len(list) < 1 || len(list) > MaxPingpongQPs {
		return nil, badPingpong(fmt.Sprintf("%d of the %d lines tell of a queue pair, and 1 to %d can", len(list), PingpongSRQLines, MaxPingpongQPs), lines[:PingpongLineSize])
	}
	return list, nil
}

// noPingpong is the line of a queue pair that there is not.
var noPingpong = appendPingpong(nil, Endpoint{})

// CheckPingpongDone judges the client's last word. The error is a [*ProtocolError].
func CheckPingpongDone(word []byte) error {
	switch {
	case string(word) == PingpongDone:
		return nil
	case len(word) > 0 && bytes.HasPrefix(noPingpong, word), pingpongWord.Match(word):
		return &ProtocolError{
			Problem: fmt.Sprintf("the peer goes on with %s after its line, as ibv_srq_pingpong does, where \"done\" is to come", quote(word)),
			Try:     "start the same program's counterpart at both ends",
		}
	}
	return badPingpong(`it is not the client's last word, "done" with a NUL`, word)
}

// pingpongWord is as much of a line as "done" is long.
var pingpongWord = regexp.MustCompile(`^[0-9a-f]{4}:$`)

func badPingpong(problem string, came []byte) error {
	return &ProtocolError{
		Problem: fmt.Sprintf("the peer sent %s, and %s", quote(came), problem),
		Try:     "use rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong or ibv_srq_pingpong there, or this program",
	}
}
