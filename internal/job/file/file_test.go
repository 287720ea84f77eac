package file

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"
)

// hostile changes a slot as soon as some of it was read.
type hostile struct{ slot []byte }

func (h hostile) Write(data []byte) (int, error) {
	for i := range h.slot {
		h.slot[i]++
	}
	return len(data), nil
}

// TestASlotIsReadOnce checks that the hashed bytes are the written ones, even if the client
// changes the slot.
func TestASlotIsReadOnce(t *testing.T) {
	var f server
	slot := bytes.Repeat([]byte("0123456789"), 2*len(f.copied)/10)
	var file bytes.Buffer
	digest := sha256.New()
	if err := f.keep(slot, hostile{slot}, digest, hostile{slot}, &file, hostile{slot}); err != nil {
		t.Fatal(err)
	}
	if sum := sha256.Sum256(file.Bytes()); file.Len() != len(slot) || !slices.Equal(sum[:], digest.Sum(nil)) {
		t.Errorf("the file has %d bytes of %d and the SHA-256 %x, but keep computed %x", file.Len(), len(slot), sum, digest.Sum(nil))
	}
}
