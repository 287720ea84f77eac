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

// Packed encodes and decodes a structure with a queue pair that a C program sends from its memory, without
// padding. The fields of T all have fixed sizes.
type Packed[T any] struct {
	Program string // the sender
	Order   binary.ByteOrder
	Size    int             // bytes
	QPN     func(*T) uint32 // the number of the queue pair
}

// Append writes value behind dst. It fails for a number that no queue pair has.
func (p Packed[T]) Append(dst []byte, value T) ([]byte, error) {
	if err := CheckQPN(p.QPN(&value)); err != nil {
		return nil, err
	}
	out, err := binary.Append(dst, p.Order, value)
	return out, errors.WithMessage(err, "encoding for "+p.Program)
}

// Decode reads a structure; data has nothing else. The error is an [*oob.ProtocolError] that says what the bytes look like.
func (p Packed[T]) Decode(data []byte) (value T, err error) {
	if len(data) != p.Size {
		return value, Unexpected(p.Program, data, fmt.Sprintf("%d bytes instead of %d", len(data), p.Size))
	}
	if _, err = binary.Decode(data, p.Order, &value); err == nil {
		if err := CheckQPN(p.QPN(&value)); err != nil {
			return *new(T), Unexpected(p.Program, data, err.Error())
		}
	}
	return value, err
}
