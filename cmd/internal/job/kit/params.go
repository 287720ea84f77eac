// The parameters of a job: the client's requests in its hello, and the server's limits in its
// own hello. They come from an untrusted peer, so each is checked where it is read.

package kit

import (
	"strconv"
	"strings"

	"github.com/pkg/errors"
)

// Params are the parameters, by name.
type Params map[string]string

// The names of parameters that several jobs use.
const (
	ParamSize    = "size"     // of the client: bytes of each buffer or region that it asks for
	ParamMaxSize = "max_size" // of the server: the largest size that it allows
	ParamChunk   = "chunk"    // of the client: bytes of each request, if there are several
	ParamBytes   = "bytes"    // of the client: bytes of all data, or of each message
	ParamQPs     = "qps"      // of the client: queue pairs
	ParamFileKey = "file_key" // of the client: the secret that gives access to its partial file
)

// Logged returns the parameters for a log, without ParamFileKey: a reader of the log could write to the file with it.
// Texts that could pass for other parts of a line are quoted, and long ones are cut.
func (p Params) Logged() map[string]string {
	logged := make(map[string]string, len(p))
	for key, value := range p {
		if key != ParamFileKey {
			logged[word(key)] = word(value)
		}
	}
	return logged
}

// shownParam is how many bytes of a parameter are logged.
const shownParam = 128

// word returns a text in quotation marks, unless it is a plain word.
func word(text string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
	switch {
	case len(text) > shownParam:
		return strconv.Quote(text[:shownParam]) + "…"
	case text == "" || strings.Trim(text, plain) != "":
		return strconv.Quote(text)
	}
	return text
}

// Number reads a whole number from low to high.
func (p Params) Number(key string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(p[key], 10, 64)
	if err != nil || n < low || n > high {
		return 0, errors.Errorf("the peer's parameter %s is %q, not a number from %d to %d; try: a peer of this program's version", key, p[key], low, high)
	}
	return n, nil
}

// Flag returns true if the parameter is "1", and false if the parameter is missing.
func (p Params) Flag(key string) (bool, error) {
	switch p[key] {
	case "":
		return false, nil
	case "1":
		return true, nil
	}
	return false, errors.Errorf("the peer's parameter %s is %q, which must be 1 or absent; try: a peer of this program's version", key, p[key])
}

// AskSize asks the server for buffers or a region of size bytes.
func (p Params) AskSize(size Size) { p[ParamSize] = strconv.FormatInt(int64(size), 10) }

// MaxSize returns, at the client, the largest size that the server allows.
func (p Params) MaxSize() (Size, error) {
	n, err := p.Number(ParamMaxSize, 1, LargestSize)
	return Size(n), err
}

// AskedSize returns the size that the client asks for. It refuses a size above the server's
// limit.
func (s *Session) AskedSize() (int, error) {
	n, err := s.Params.Number(ParamSize, 1, LargestSize)
	if err != nil {
		return 0, err
	}
	return int(n), within(Size(n), s.MaxSize)
}

// CheckSize refuses a size above the server's limit. The client calls it before it allocates
// the memory.
func CheckSize(asked, server Params) error {
	if asked[ParamSize] == "" {
		return nil
	}
	n, err := asked.Number(ParamSize, 1, LargestSize)
	if err != nil {
		return err
	}
	most, err := server.MaxSize()
	if err != nil {
		return err
	}
	return within(Size(n), most)
}

func within(asked, most Size) error {
	if asked <= most {
		return nil
	}
	return errors.Errorf("the client asks for %v bytes, but the server gives at most %v; try: rdma_client --size %v, or rdma_server --max-size", asked, most, most)
}
