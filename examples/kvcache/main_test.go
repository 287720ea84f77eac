package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
)

// TestSlots checks what find returns for pairs, other keys on the same slot and torn copies.
func TestSlots(t *testing.T) {
	s := &slab{memory: make([]byte, slotSize)} // one slot: all keys fall on it
	if _, ok, err := find(s.memory, []byte("a")); ok || err != nil {
		t.Fatalf("an empty slot: %v, %v", ok, err)
	}
	for _, pair := range [][2]string{{"", "no key"}, {"key", string(make([]byte, maxPair-2))}} {
		if s.put([]byte(pair[0]), []byte(pair[1])) == nil {
			t.Errorf("stored a key of %d bytes and a value of %d", len(pair[0]), len(pair[1]))
		}
	}
	for _, key := range []string{"a", "b"} {
		if err := s.put([]byte(key), []byte("value of "+key)); err != nil {
			t.Fatal(err)
		}
		if value, ok, err := find(s.memory, []byte(key)); string(value) != "value of "+key || !ok || err != nil {
			t.Fatalf("%q, %v, %v", value, ok, err)
		}
	}
	if _, ok, err := find(s.memory, []byte("a")); ok || err != nil {
		t.Errorf("a replaced key: %v, %v", ok, err)
	}
	for i := range slotHead + len("b"+"value of b") {
		torn := bytes.Clone(s.memory)
		torn[i] ^= 8
		if _, _, err := find(torn, []byte("b")); !errors.Is(err, errTorn) {
			t.Errorf("byte %d is of another moment: %v", i, err)
		}
	}
}

func TestPutOfAStranger(t *testing.T) {
	s := &slab{memory: make([]byte, slotSize)}
	for _, put := range [][]byte{nil, {1}, {1, 0}, {255, 255, 'k'}, {0, 0}} {
		if s.apply(put) == nil {
			t.Errorf("%v was applied", put)
		}
	}
}

// TestReadersSeeWholeValues has clients that GET keys while others PUT them: each value must
// be one that was put.
func TestReadersSeeWholeValues(t *testing.T) {
	address := startCache(t)
	var done sync.WaitGroup
	for i := range 4 {
		done.Go(func() {
			c := startClient(t, address)
			for n := range 300 {
				key := []byte{byte(n % 3)}
				if i%2 == 0 {
					if err := c.put(t.Context(), key, bytes.Repeat([]byte{byte(n)}, 200)); err != nil {
						t.Error(err)
						return
					}
					continue
				}
				value, ok, err := c.get(t.Context(), key)
				if err != nil || ok && (len(value) != 200 || !bytes.Equal(value, bytes.Repeat(value[:1], 200))) {
					t.Errorf("%v %v %v", value, ok, err)
					return
				}
			}
			if err := c.conn.Finish(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
}

func startCache(t testing.TB) (address string) {
	dev := softtest.Open(t)
	listener, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, dev, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func startClient(t testing.TB, address string) *client {
	c, err := dial(t.Context(), softtest.Open(t), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close() })
	return c
}

// cache has the operations that the benchmark measures, over RDMA and over TCP.
type cache interface {
	get(ctx context.Context, key []byte) ([]byte, bool, error)
	put(ctx context.Context, key, value []byte) error
}

// BenchmarkCache compares the cache with one over TCP: 8 clients, 90 % GET, 1,000 keys with
// values of 100 bytes.
func BenchmarkCache(b *testing.B) {
	rdma, tcp := startCache(b), startTCP(b)
	for _, way := range []struct {
		name string
		dial func() cache
	}{
		{"rdma", func() cache { return startClient(b, rdma) }},
		{"tcp", func() cache { return dialTCP(b, tcp) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			const clients = 8
			caches := make([]cache, clients)
			for i := range caches {
				caches[i] = way.dial()
			}
			for k := range 1000 {
				if err := caches[0].put(b.Context(), fmt.Append(nil, "key ", k), make([]byte, 100)); err != nil {
					b.Fatal(err)
				}
			}
			took := make([][]time.Duration, clients)
			var done sync.WaitGroup
			b.ResetTimer()
			for i, c := range caches {
				done.Go(func() { took[i] = use(b, c, b.N/clients+1, uint64(i)) })
			}
			done.Wait()
			b.StopTimer()
			all := slices.Sorted(slices.Values(slices.Concat(took...)))
			b.ReportMetric(float64(len(all))/b.Elapsed().Seconds(), "ops/s")
			b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, "p50-µs")
			b.ReportMetric(float64(all[len(all)*99/100].Nanoseconds())/1e3, "p99-µs")
		})
	}
}

// use does n operations and returns how long each took.
func use(b *testing.B, c cache, n int, seed uint64) []time.Duration {
	random := rand.New(rand.NewPCG(seed, 1))
	value := make([]byte, 100)
	took := make([]time.Duration, 0, n)
	for range n {
		key := fmt.Append(nil, "key ", random.IntN(1000))
		began := time.Now()
		var err error
		if random.IntN(10) == 0 {
			err = c.put(b.Context(), key, value)
		} else {
			_, _, err = c.get(b.Context(), key)
		}
		if err != nil {
			b.Error(err)
			return took
		}
		took = append(took, time.Since(began))
	}
	return took
}

// tcpClient is a client of the same cache over TCP. A request is u8 op, u16 length of the key,
// u16 length of the value, key, value; an answer is u16 length of the value, value.
type tcpClient struct {
	nc  net.Conn
	buf [5 + maxPair]byte
}

func startTCP(b *testing.B) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	s := &slab{memory: make([]byte, slots*slotSize)}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				_ = s.serveTCP(nc) // its client notices
			}()
		}
	}()
	return l.Addr().String()
}

func (s *slab) serveTCP(nc net.Conn) error {
	in := bufio.NewReader(nc)
	var buf [5 + maxPair]byte
	for {
		if _, err := io.ReadFull(in, buf[:5]); err != nil {
			return err
		}
		k, v := int(binary.LittleEndian.Uint16(buf[1:])), int(binary.LittleEndian.Uint16(buf[3:]))
		if k+v > maxPair {
			return errPair
		}
		if _, err := io.ReadFull(in, buf[5:5+k+v]); err != nil {
			return err
		}
		n := 0
		if key := buf[5 : 5+k]; buf[0] == 'p' {
			if err := s.put(key, buf[5+k:5+k+v]); err != nil {
				return err
			}
		} else {
			n = s.copyOf(key, buf[2:])
		}
		binary.LittleEndian.PutUint16(buf[:], uint16(n))
		if _, err := nc.Write(buf[:2+n]); err != nil {
			return err
		}
	}
}

// copyOf copies a key's value to dst, under the slot's lock.
func (s *slab) copyOf(key, dst []byte) int {
	index := slotOf(key, slots)
	lock := &s.locks[index%len(s.locks)]
	lock.Lock()
	defer lock.Unlock()
	value, _, _ := find(s.memory[index*slotSize:][:slotSize], key) // never torn under the lock
	return copy(dst, value)
}

func dialTCP(b *testing.B, address string) *tcpClient {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { nc.Close() })
	return &tcpClient{nc: nc}
}

func (c *tcpClient) ask(op byte, key, value []byte) ([]byte, error) {
	c.buf[0] = op
	binary.LittleEndian.PutUint16(c.buf[1:], uint16(len(key)))
	binary.LittleEndian.PutUint16(c.buf[3:], uint16(len(value)))
	n := 5 + copy(c.buf[5:], key)
	n += copy(c.buf[n:], value)
	if _, err := c.nc.Write(c.buf[:n]); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c.nc, c.buf[:2]); err != nil {
		return nil, err
	}
	n = int(binary.LittleEndian.Uint16(c.buf[:]))
	_, err := io.ReadFull(c.nc, c.buf[:n])
	return c.buf[:n], err
}

func (c *tcpClient) get(_ context.Context, key []byte) ([]byte, bool, error) {
	value, err := c.ask('g', key, nil)
	return value, len(value) > 0, err
}

func (c *tcpClient) put(_ context.Context, key, value []byte) error {
	_, err := c.ask('p', key, value)
	return err
}
