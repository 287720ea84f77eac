package oob

// Recognition of peers that speak another protocol. If the first bytes of a connection
// are not the native protocol, they often belong to a well-known one: the port is wrong,
// or the peer is another RDMA example program. The error then names that program.

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
)

const (
	// quoteSize limits the bytes of a foreign greeting that are read and quoted.
	quoteSize = 128

	// quoteWait limits the wait for the rest of a greeting.
	quoteWait = 100 * time.Millisecond
)

// foreign reads the rest of a greeting that began with first and returns the error that
// names the likely program. The connection is not read after that.
func (c *Conn) foreign(first []byte) error {
	greeting := append(make([]byte, 0, quoteSize), first...)
	c.nc.SetReadDeadline(time.Now().Add(quoteWait))
	for len(greeting) < quoteSize && !hasLine(greeting) {
		n, err := c.incoming.r.Read(greeting[len(greeting):quoteSize])
		greeting = greeting[:len(greeting)+n]
		if err != nil {
			break
		}
	}
	e := describeForeign(greeting)
	e.Peer = c.peer
	return e
}

// hasLine reports whether a greeting begins with a whole line of text. A C structure may have the byte of a newline
// anywhere.
func hasLine(greeting []byte) bool {
	line, _, found := strings.Cut(string(greeting), "\n")
	return found && checkText("greeting", strings.TrimRight(line, "\r"), 1, quoteSize) == nil
}

// foreignSign is the first bytes of a well-known program.
type foreignSign struct {
	pattern *regexp.Regexp
	looks   string
	try     string
}

// foreignSigns are compiled when a wrong peer has come, because every program starts with this package.
var foreignSigns = sync.OnceValue(func() []foreignSign {
	return []foreignSign{
		{regexp.MustCompile("^" + magic), "a program that uses rawverbs' native format", tryFormat},
		{regexp.MustCompile(`^HTTP/[0-9]`), "an HTTP server", tryPort},
		{regexp.MustCompile(`^[A-Z]+ [^ ]+ HTTP/[0-9]`), "an HTTP client", tryPort},
		{regexp.MustCompile(`^SSH-[0-9]`), "an SSH server or client", tryPort},
		{regexp.MustCompile(`^(?s:[\x14-\x17]\x03[\x00-\x04])`), "a TLS server or client", tryTLS},
		{regexp.MustCompile(`^220[ -]`), "a mail or FTP server", tryPort},
		{regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{6}:`), "ibv_rc_pingpong or a similar program", tryFormat},
		{regexp.MustCompile(`^[0-9]\.[0-9]{1,3}\x00`), "a perftest program (ib_send_bw and the like)", tryFormat},
	}
})

// foreignSizes are the programs that send a C structure without a magic. Only its size
// identifies the program.
var foreignSizes = map[int]string{
	22: "a rocev2-learn program",
	34: "RDMA_RC_example",
}

const (
	tryPort   = "is this the right port?"
	tryTLS    = "use TLS (--tls) at both ends or at neither; or is this not the right port?"
	tryFormat = "start this program's counterpart there, or select that program's exchange format here"
)

// describeForeign returns the error for a peer that sent this greeting.
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

// Recognize returns the well-known program that begins a connection with these bytes,
// such as "an HTTP server", and a remedy. Both are empty for an unknown program.
func Recognize(greeting []byte) (program, try string) {
	for _, sign := range foreignSigns() {
		if sign.pattern.Match(greeting) {
			return sign.looks, sign.try
		}
	}
	if program := foreignSizes[len(greeting)]; program != "" {
		return program, tryFormat
	}
	return "", ""
}

// quotedBytes is the number of bytes that identify a binary greeting to a reader.
const quotedBytes = 40

// Quote returns the first line of greeting in quotation marks, safe for a terminal. If
// that line is not text, Quote returns the first bytes of greeting in hexadecimal.
func Quote(greeting []byte) string {
	line, _, _ := strings.Cut(string(greeting), "\n")
	line = strings.TrimRight(line, "\r\x00")
	if checkText("greeting", line, 1, quoteSize) == nil {
		return fmt.Sprintf("%q", line)
	}
	if len(greeting) > quotedBytes {
		return fmt.Sprintf("% x …", greeting[:quotedBytes])
	}
	return fmt.Sprintf("% x", greeting)
}
