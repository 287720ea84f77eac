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
	port, err := dev.QueryPort(number)
	if err != nil {
		return err
	}
	if uint64(c.chunk) > uint64(port.MaxMsgSize) {
		return fmt.Errorf("a chunk of %v bytes is more than one message of %s carries, %v; try: --chunk %v",
			Size(c.chunk), dev.Name(), Size(port.MaxMsgSize), Size(port.MaxMsgSize))
	}
	return nil
}
