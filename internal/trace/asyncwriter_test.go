package trace

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestAsyncWriter checks that Write does not wait, that everything arrives in order, and that it
// goes on after flush.
func TestAsyncWriter(t *testing.T) {
	goOn := make(chan struct{})
	var got bytes.Buffer
	w := &asyncWriter{out: writerFunc(func(p []byte) (int, error) {
		<-goOn
		return got.Write(p)
	})}
	for range 100 {
		if n, err := w.Write([]byte("ab")); n != 2 || err != nil {
			t.Fatal(n, err)
		}
	}
	close(goOn)
	err := w.flush()
	_, err2 := w.Write([]byte("c"))
	if err := errors.Join(err, err2, w.flush()); err != nil || got.String() != strings.Repeat("ab", 100)+"c" {
		t.Errorf("%v, %q", err, &got)
	}
}

func TestAsyncWriterKeepsItsError(t *testing.T) {
	full, calls := errors.New("full"), 0
	w := &asyncWriter{out: writerFunc(func([]byte) (int, error) { calls++; return 0, full })}
	if _, err := w.Write([]byte("a")); err != nil {
		t.Error(err)
	}
	if err := w.flush(); !errors.Is(err, full) {
		t.Error(err)
	}
	if _, err := w.Write([]byte("b")); !errors.Is(err, full) || !errors.Is(w.flush(), full) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
