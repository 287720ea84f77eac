package asyncwriter

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestWriter checks that Write does not wait, that everything arrives in order, and that a Writer
// goes on after Flush.
func TestWriter(t *testing.T) {
	goOn := make(chan struct{})
	var got bytes.Buffer
	w := New(writerFunc(func(p []byte) (int, error) {
		<-goOn
		return got.Write(p)
	}))
	for range 100 {
		if n, err := w.Write([]byte("ab")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	close(goOn)
	err := w.Flush()
	_, err2 := w.Write([]byte("c"))
	if err := errors.Join(err, err2, w.Flush()); err != nil || got.String() != strings.Repeat("ab", 100)+"c" {
		t.Errorf("%v, %q", err, &got)
	}
}

func TestWriterKeepsItsError(t *testing.T) {
	full, calls := errors.New("full"), 0
	w := New(writerFunc(func([]byte) (int, error) { calls++; return 0, full }))
	if _, err := w.Write([]byte("a")); err != nil {
		t.Error(err)
	}
	if err := w.Flush(); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := w.Write([]byte("b")); !errors.Is(err, full) || !errors.Is(w.Flush(), full) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
