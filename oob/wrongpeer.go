package oob

// Who is that? When the first bytes of a connection are not this protocol,
// they mostly are a well-known one: somebody took the wrong port, or started
// another RDMA example program. The error then says so.

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	// quoteSize is how much of a foreign greeting is read, to be quoted.
	quoteSize = 128

	// quoteWait is how long to wait for the rest of a greeting.
	quoteWait = 100 * time.Millisecond
)

// foreign reads on for a moment after the first bytes and reports what the peer
// looks like. Nothing is read from the connection after that.
func (c *Conn) foreign(first []byte) error {
	greeting := append(make([]byte, 0, quoteSize), first...)
	c.nc.SetReadDeadline(time.Now().Add(quoteWait))
	for len(greeting) < quoteSize && !bytes.ContainsRune(greeting, '\n') {
		n, err := c.nc.Read(greeting[len(greeting):quoteSize])
		greeting = greeting[:len(greeting)+n]
		if err != nil {
			break
		}
	}
	e := describeForeign(greeting)
	e.Peer = c.peer
	return e
}

// foreignSigns are what well-known peers begin with.
var foreignSigns = []struct {
	pattern *regexp.Regexp
	looks   string
	try     string
}{
	{regexp.MustCompile("^" + magic), "a program that speaks rawverbs' native format", tryFormat},
	{regexp.MustCompile(`^HTTP/[0-9]`), "an HTTP server", tryPort},
	{regexp.MustCompile(`^[A-Z]+ [^ ]+ HTTP/[0-9]`), "an HTTP client", tryPort},
	{regexp.MustCompile(`^SSH-[0-9]`), "an SSH server or client", tryPort},
	{regexp.MustCompile(`^(?s:[\x14-\x17]\x03[\x00-\x04])`), "a TLS server or client", tryPort},
	{regexp.MustCompile(`^220[ -]`), "a mail or FTP server", tryPort},
	{regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{6}:`), "ibv_rc_pingpong or one of its kind", tryFormat},
	{regexp.MustCompile(`^[0-9]\.[0-9]{1,3}\x00`), "a perftest program (ib_send_bw and the like)", tryFormat},
}

// foreignSizes are the programs that send a bare structure: it has no mark,
// but its size is telling.
var foreignSizes = map[int]string{
	22: "a rocev2-learn program",
	34: "RDMA_RC_example",
}

const (
	tryPort   = "is this the right port?"
	tryFormat = "start this program's counterpart there, or select that program's exchange format here"
)

// describeForeign makes the error for a peer that greets like this.
func describeForeign(greeting []byte) *ProtocolError {
	program, try := Recognize(greeting)
	if program == "" {
		return &ProtocolError{
			Problem: "the peer does not speak this protocol, its first bytes are " + Quote(greeting),
			Try:     tryPort, Err: ErrForeignPeer,
		}
	}
	return &ProtocolError{
		Problem: fmt.Sprintf("the peer answered like %s: %s", program, Quote(greeting)),
		Try:     try, Err: ErrForeignPeer,
	}
}

// Recognize names the well-known program that begins a connection with these bytes, such
// as "an HTTP server", and says what to try. Both are empty if the bytes are of no
// program known here.
func Recognize(greeting []byte) (program, try string) {
	for _, sign := range foreignSigns {
		if sign.pattern.Match(greeting) {
			return sign.looks, sign.try
		}
	}
	if program := foreignSizes[len(greeting)]; program != "" {
		return program, tryFormat
	}
	return "", ""
}

// Quote returns the first line of what a peer sent, in quotation marks and safe for
// a terminal. If that line is not text, Quote returns its bytes in hexadecimal.
func Quote(greeting []byte) string {
	line, _, _ := strings.Cut(string(greeting), "\n")
	line = strings.TrimRight(line, "\r\x00")
	if checkText("greeting", line, 1, quoteSize) == nil {
		return fmt.Sprintf("%q", line)
	}
	return fmt.Sprintf("% x", greeting)
}
