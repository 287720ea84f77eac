// The data of the job "bulk". It is made from a seed, so every chunk differs, and each end
// knows every byte. The data is compared byte by byte, and its checksum is computed.

package bulk

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"

	"github.com/cespare/xxhash/v2"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// data makes or checks the chunks, in order.
type data struct {
	seed  uint64
	chunk int64 // bytes of each chunk; the last may be shorter
	sum   *xxhash.Digest
	bytes int64 // number of bytes in sum
}

func newData(seed uint64, chunk int) data {
	return data{seed: seed, chunk: int64(chunk), sum: xxhash.New()}
}

// golden is 2^64 divided by the golden ratio. Adding it again and again reaches all numbers,
// and each is far from the one before.
const golden = 0x9e3779b97f4a7c15

// first returns the number from which a chunk's words are counted. The numbers of neighbouring
// chunks are unrelated.
func (d *data) first(chunk int64) uint64 { return mixed(mixed(d.seed) + uint64(chunk)*golden) }

// mixed is the last step of SplitMix64. It returns a number that seems unrelated to x.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fill makes a chunk's data: words of 8 bytes, little-endian.
func (d *data) fill(chunk int64, buf []byte) {
	x := d.first(chunk)
	rest := buf
	for len(rest) >= 8 {
		x += golden
		binary.LittleEndian.PutUint64(rest, x^x>>32)
		rest = rest[8:]
	}
	var last [8]byte
	x += golden
	binary.LittleEndian.PutUint64(last[:], x^x>>32)
	copy(rest, last[:])
	d.add(buf)
}

// check compares a chunk with the expected data. The error is a *mismatch.
func (d *data) check(chunk int64, buf []byte) error {
	x := d.first(chunk)
	for at := 0; at < len(buf); at += 8 {
		x += golden
		want := x ^ x>>32
		if rest := buf[at:]; len(rest) >= 8 {
			if binary.LittleEndian.Uint64(rest) == want {
				continue
			}
		}
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], want)
		for i, got := range buf[at:min(at+8, len(buf))] {
			if got != word[i] {
				return &mismatch{Chunk: chunk, Offset: chunk*d.chunk + int64(at+i), Got: got, Want: word[i]}
			}
		}
	}
	d.add(buf)
	return nil
}

func (d *data) add(buf []byte) {
	_, _ = d.sum.Write(buf) // never fails
	d.bytes += int64(len(buf))
}

// mismatch is the first byte of the received data that differs from the data sent.
type mismatch struct {
	Chunk     int64
	Offset    int64 // of the byte, in all of the data
	Got, Want byte
}

func (e *mismatch) Error() string {
	return fmt.Sprintf("the received data differs from the data sent, from byte %d on, in chunk %d: %#02x instead of %#02x; try: another --op or --mtu, dmesg for errors of the device, and a capture of both ends",
		e.Offset, e.Chunk, e.Got, e.Want)
}

// summary returns the text that the ends compare after the last chunk.
func (d *data) summary() string {
	return fmt.Sprintf("xxh64 %016x of %d bytes", d.sum.Sum64(), d.bytes)
}

const noteSum = "bulk sum"

// compare sends this end's sum to the peer and compares it with the peer's.
func (d *data) compare(ctx context.Context, c *rc.Conn) error {
	mine := d.summary()
	if err := c.TCP().SendNote(ctx, oob.Note{Name: noteSum, Data: []byte(mine)}); err != nil {
		return err
	}
	note, err := c.TCP().RecvNote(ctx, noteSum)
	if err != nil {
		return err
	}
	if !bytes.Equal(note.Data, []byte(mine)) {
		return errors.Errorf("the data of the two ends differ: %s here, %.64q at the peer; try: the same version at both ends", mine, note.Data)
	}
	return nil
}
