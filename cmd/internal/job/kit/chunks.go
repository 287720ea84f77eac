// Data that goes in chunks, as in the jobs bulk and file.

package kit

import (
	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// Chunked is an amount of data that goes in chunks.
type Chunked struct {
	Total int64 // bytes
	Chunk int   // bytes of each chunk; the last may be shorter
}

// Chunks returns the number of chunks.
func (c *Chunked) Chunks() int64 {
	n := c.Total / int64(c.Chunk)
	if c.Total%int64(c.Chunk) > 0 {
		n++
	}
	return n
}

// Length returns the number of bytes of chunk i.
func (c *Chunked) Length(i int64) int { return int(min(int64(c.Chunk), c.Total-i*int64(c.Chunk))) }

// Check refuses chunks that are longer than one message through the port.
func (c *Chunked) Check(dev *verbs.Device, number uint8) error {
	most, err := LongestMessage(dev, number)
	if err == nil && Size(c.Chunk) > most {
		err = errors.Errorf("a chunk of %v bytes is longer than one message of %s, %v; try: --chunk %v", Size(c.Chunk), dev.Name(), most, most)
	}
	return err
}

// LongestMessage returns the largest number of bytes that one message through a port can have.
func LongestMessage(dev *verbs.Device, number uint8) (Size, error) {
	port, err := dev.QueryPort(number)
	return Size(port.MaxMsgSize), err
}
