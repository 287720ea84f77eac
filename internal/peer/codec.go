// What the messages of C programs have in common: they have no magic number and no version, and
// their sizes are fixed. If the bytes cannot be of the expected program, the error says what
// they look like.

package peer

import (
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
)

// Unexpected returns the error for bytes that are not a message of program. The error names the
// well-known program that the bytes look like, or otherwise states the problem.
func Unexpected(program string, got []byte, problem string) *oob.ProtocolError {
	if looks, try := oob.Recognize(got); looks != "" && looks != program {
		return &oob.ProtocolError{
			Problem: fmt.Sprintf("the peer answered like %s: %s; %s was expected", looks, oob.Quote(got), program),
			Try:     try, Err: oob.ErrForeignPeer,
		}
	}
	return &oob.ProtocolError{
		Problem: fmt.Sprintf("the peer's message is not of %s, %s: %s", program, problem, oob.Quote(got)),
		Try:     "start that program there, or name the program that runs there (--peer)",
		Err:     oob.ErrForeignPeer,
	}
}

// Max24 is the largest queue pair number and the largest packet sequence number.
const Max24 = 1<<24 - 1

// CheckQPN returns an error for a number that no queue pair has.
func CheckQPN(qpn uint32) error {
	if qpn == 0 || qpn > Max24 {
		return errors.Errorf("queue pair number 0x%x is not from 1 to 0xffffff", qpn)
	}
	return nil
}

// Packed encodes and decodes a structure that a C program sends from its memory, without
// padding.
type Packed struct {
	Program string // the sender
	Order   binary.ByteOrder
	Size    int // bytes
}

// Append writes the fields of value, which all have fixed sizes, behind dst.
func (p Packed) Append(dst []byte, value any) ([]byte, error) {
	out, err := binary.Append(dst, p.Order, value)
	return out, errors.WithMessage(err, "encoding for "+p.Program)
}

// Decode reads a whole structure into value. The error is an [*oob.ProtocolError].
func (p Packed) Decode(data []byte, value any) error {
	if len(data) != p.Size {
		return Unexpected(p.Program, data, fmt.Sprintf("%d bytes instead of %d", len(data), p.Size))
	}
	_, err := binary.Decode(data, p.Order, value)
	return err
}
