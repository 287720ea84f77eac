package file

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/cmd/internal/job/file/folder"
	"github.com/rawverbs/rawverbs/cmd/internal/job/kit"
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

// TestCompleteFileIsNotWrittenAgain lets a client come back after Commit with another size.
func TestCompleteFileIsNotWrittenAgain(t *testing.T) {
	path, key := t.TempDir(), rand.Text()
	inbox, err := folder.Open(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer inbox.Close()
	open := func() *folder.File {
		t.Helper()
		file, err := inbox.Partial(key, "name")
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := open()
	if _, err := file.Write([]byte("complete")); err != nil {
		t.Fatal(err)
	}
	if err := file.Commit("name"); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 7, 9} {
		file.Keep() // the connection is lost
		file.Close()
		file = open()
		f := server{transfer: transfer{Chunked: kit.Chunked{Total: size, Chunk: 32}, name: "name"}, inbox: inbox, offer: &offer{key: key}}
		if _, err := f.findFirst(t.Context(), nil, file); err == nil || !strings.Contains(err.Error(), "is complete with 8 bytes") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	file.Close()
	if got, err := os.ReadFile(filepath.Join(path, "name")); string(got) != "complete" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
