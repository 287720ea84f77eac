package oob

// What the formats of other programs have in common: no mark, no version, fixed
// sizes. Bytes that cannot be of the format expected are shown for what they look
// like.

import (
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"
)

// notOf is the error for bytes that came where a format's were expected: what they
// look like if that is known, else what is wrong with them.
func notOf(format string, got []byte, problem string) *ProtocolError {
	if e := describeSign(got); e != nil {
		e.Problem += fmt.Sprintf("; %s was expected", format)
		return e
	}
	return &ProtocolError{
		Problem: fmt.Sprintf("what came is not of %s, %s: %s", format, problem, quote(got)),
		Try:     "start that program there, or select the exchange format of the one that runs there",
		Err:     ErrForeignPeer,
	}
}

const max24 = 1<<24 - 1

// packed reads and writes the structures that C programs send as they lie in
// memory, packed.
type packed struct {
	format string
	order  binary.ByteOrder
	size   int
}

// append writes fixed-size fields one behind the other.
func (p packed) append(dst []byte, value any) ([]byte, error) {
	out, err := binary.Append(dst, p.order, value)
	return out, errors.WithMessage(err, "oob: encoding for "+p.format)
}

// decode reads a whole message.
func (p packed) decode(data []byte, value any) error {
	if len(data) != p.size {
		return notOf(p.format, data, fmt.Sprintf("%d bytes instead of %d", len(data), p.size))
	}
	_, err := binary.Decode(data, p.order, value)
	return err
}

func checkQPN(qpn uint32) error {
	if qpn == 0 || qpn > max24 {
		return errors.Errorf("queue pair number 0x%x is none of 24 bits", qpn)
	}
	return nil
}
