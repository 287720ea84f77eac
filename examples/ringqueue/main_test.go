package main

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// transfer runs both ends and returns what arrived, and the errors of both ends.
func transfer(t testing.TB, in io.Reader, out io.Writer) (consumed int64, produceErr, consumeErr error) {
	ctx := testkit.Context(t)
	dev := softtest.Open(t)
	listener, err := rc.Listen(ctx, "127.0.0.1:0", rc.ListenConfig{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		consumed, consumeErr = consume(ctx, dev, listener, out)
	}()
	_, produceErr = produce(ctx, dev, listener.Addr().String(), in)
	<-done
	return consumed, produceErr, consumeErr
}

func TestQueue(t *testing.T) {
	data := make([]byte, 3<<20+17)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	for name, in := range map[string]io.Reader{
		"nothing":        strings.NewReader(""),
		"one message":    strings.NewReader("hello"),
		"full slots":     bytes.NewReader(data[:slots*slotSize]),
		"one more":       bytes.NewReader(data[:slots*slotSize+1]),
		"many rounds":    bytes.NewReader(data),
		"short messages": iotest.OneByteReader(bytes.NewReader(data[:quarter*9+3])),
		"a late EOF":     iotest.DataErrReader(bytes.NewReader(data[:100])),
	} {
		t.Run(name, func(t *testing.T) {
			var sent, received bytes.Buffer
			n, produceErr, consumeErr := transfer(t, io.TeeReader(in, &sent), &received)
			if err := errors.Join(produceErr, consumeErr); err != nil {
				t.Fatal(err)
			}
			if n != int64(sent.Len()) || !bytes.Equal(sent.Bytes(), received.Bytes()) {
				t.Errorf("%d bytes were sent, %d came, and the same: %v", sent.Len(), n, bytes.Equal(sent.Bytes(), received.Bytes()))
			}
		})
	}
}

// TestFailures checks that a failure at one end reaches the other. A failed input must not look like
// the end of the queue.
func TestFailures(t *testing.T) {
	broken := errors.New("the disk is gone")
	t.Run("input", func(t *testing.T) {
		in := io.MultiReader(strings.NewReader("begun"), iotest.ErrReader(broken))
		_, produceErr, consumeErr := transfer(t, in, io.Discard)
		if !errors.Is(produceErr, broken) || consumeErr == nil || !strings.Contains(consumeErr.Error(), broken.Error()) {
			t.Errorf("the producer ended with %v, the consumer with %v", produceErr, consumeErr)
		}
	})
	t.Run("output", func(t *testing.T) {
		_, produceErr, consumeErr := transfer(t, bytes.NewReader(make([]byte, 8<<20)), failingWriter{broken})
		if !errors.Is(consumeErr, broken) || produceErr == nil || !strings.Contains(produceErr.Error(), broken.Error()) {
			t.Errorf("the producer ended with %v, the consumer with %v", produceErr, consumeErr)
		}
	})
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// BenchmarkQueue moves full slots.
func BenchmarkQueue(b *testing.B) {
	b.SetBytes(slotSize)
	if _, produceErr, consumeErr := transfer(b, io.LimitReader(zeros{}, int64(b.N)*slotSize), io.Discard); produceErr != nil || consumeErr != nil {
		b.Fatal(produceErr, consumeErr)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }
