// Data that goes in chunks, as in the jobs bulk and file.

package lab

import (
	"fmt"

	"github.com/rawverbs/rawverbs/verbs"
)

// chunked is so much data, in chunks.
type chunked struct {
	total int64 // bytes
	chunk int   // bytes of each, but the last
}

// chunks is how many there are.
func (c *chunked) chunks() int64 {
	n := c.total / int64(c.chunk)
	if c.total%int64(c.chunk) > 0 {
		n++
	}
	return n
}

// length is the bytes of a chunk.
func (c *chunked) length(i int64) int { return int(min(int64(c.chunk), c.total-i*int64(c.chunk))) }

// carried refuses chunks that a port's messages are too short for.
func (c *chunked) carried(dev *verbs.Device, number uint8) error {
	most, err := longestMessage(dev, number)
	if err == nil && Size(c.chunk) > most {
		err = fmt.Errorf("a chunk of %v bytes is more than one message of %s carries, %v; try: --chunk %v", Size(c.chunk), dev.Name(), most, most)
	}
	return err
}

// longestMessage is how much one message carries through a port.
func longestMessage(dev *verbs.Device, number uint8) (Size, error) {
	port, err := dev.QueryPort(number)
	return Size(port.MaxMsgSize), err
}
