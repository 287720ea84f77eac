// Command kvcache is an example of package rc: a cache that clients read without the server.
// A GET is one RDMA READ of the server's memory: no code of the server runs. A PUT is a SEND.
//
//	kvcache server :18517                       on one host
//	kvcache put 10.0.0.1:18517 colour green     on others
//	kvcache get 10.0.0.1:18517 colour
//
// slab.go has the memory that both ends know, and how a reader notices a torn read.
package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for hosts without an RDMA device
	"github.com/rawverbs/rawverbs/verbs"
)

const (
	slots    = 1 << 16
	maxConns = 64
	inboxes  = 256             // receives, shared by all clients
	putSize  = 2 + maxPair     // a PUT: u16 length of the key, key, value
	job      = "kvcache-slots" // both ends must mean the same memory layout
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kvcache:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch what := strings.Join(args[:min(1, len(args))], ""); {
	case what == "server" && len(args) == 2:
		listener, err := rc.Listen(ctx, args[1], rc.ListenConfig{Job: job})
		if err != nil {
			return err
		}
		return serve(ctx, nil, listener)
	case what == "get" && len(args) == 3, what == "put" && len(args) == 4:
		c, err := dial(ctx, nil, args[1])
		if err != nil {
			return err
		}
		defer c.conn.Close()
		if what == "put" {
			err = c.put(ctx, []byte(args[2]), []byte(args[3]))
		} else if value, ok, err2 := c.get(ctx, []byte(args[2])); err2 != nil || !ok {
			err = errors.Join(err2, fmt.Errorf("the cache does not have %q", args[2]))
		} else {
			fmt.Printf("%s\n", value)
		}
		return errors.Join(err, c.conn.Finish(ctx))
	}
	return errors.New("try: kvcache server ADDRESS | get ADDRESS KEY | put ADDRESS KEY VALUE")
}

// serve serves the cache until ctx ends; a nil dev is the first device.
func serve(ctx context.Context, dev *verbs.Device, listener *rc.Listener) error {
	var memory, inbox *verbs.MR
	var server *rc.Server
	post := func(id uint64) error {
		return server.SRQ().PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{inbox.SGE(int(id)*putSize, putSize)}}})
	}
	timing := rc.DefaultTiming()
	timing.RNRRetry = 6 // a client without a receive for its answer must not hold up the server forever
	server, err := rc.NewServer(rc.ServerConfig{
		MaxConns: maxConns,
		Config: rc.Config{
			Device: dev, Timing: &timing, Access: verbs.AccessRemoteRead, SRQ: &verbs.SRQInit{MaxWR: inboxes, MaxSGE: 1},
			Prepare: func(c *rc.Conn) error { c.Share("slots", memory); return nil },
		},
		Unread: func(wc verbs.WC) { _ = post(wc.ID) }, // the client is gone
	})
	if err != nil {
		return err
	}
	defer server.Close()
	if memory, err = server.AllocMR("slots", slots*slotSize, verbs.AccessLocalWrite|verbs.AccessRemoteRead); err != nil {
		return err
	}
	if inbox, err = server.AllocMR("puts", inboxes*putSize, verbs.AccessLocalWrite); err != nil {
		return err
	}
	for id := range inboxes {
		if err := post(uint64(id)); err != nil {
			return err
		}
	}
	cache := &slab{memory: memory.Bytes()}
	return server.Serve(ctx, listener, func(ctx context.Context, c *rc.Conn) error {
		for {
			wc, err := c.WaitRecv(ctx)
			if errors.As(err, new(*verbs.WCError)) { // a failed receive has left the SRQ too
				return errors.Join(err, post(wc.ID))
			}
			if err != nil {
				return err // io.EOF once the client has finished
			}
			put := inbox.Bytes()[wc.ID*putSize:][:wc.ByteLen]
			err = cache.apply(put)
			if err = errors.Join(err, post(wc.ID)); err != nil {
				return err // the client gets the reason
			}
			if err := c.Send(ctx, verbs.MRSlice{}); err != nil { // an empty message: done
				return err
			}
		}
	})
}

// apply does a PUT as a client sent it.
func (s *slab) apply(put []byte) error {
	if len(put) < 2 || len(put)-2 < int(binary.LittleEndian.Uint16(put)) {
		return errors.New("a PUT must have the length of its key, and the key")
	}
	key := 2 + int(binary.LittleEndian.Uint16(put))
	return s.put(put[2:key], put[key:])
}

// client is one connection to a cache. One goroutine uses it at a time.
type client struct {
	conn  *rc.Conn
	slots oob.Region
	mr    *verbs.MR // a slot, then a PUT
}

// dial connects to a cache; a nil dev is the first device.
func dial(ctx context.Context, dev *verbs.Device, address string) (*client, error) {
	conn, err := rc.Dial(ctx, address, rc.Config{Device: dev, Job: job})
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn}
	c.mr, err = conn.AllocMR("buffer", slotSize+putSize, verbs.AccessLocalWrite)
	if c.slots, _ = conn.PeerRegion("slots"); err == nil && c.slots.Length != slots*slotSize {
		err = fmt.Errorf("the server shares %d bytes as slots, want %d", c.slots.Length, slots*slotSize)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// get returns the value of a key, which is valid until the next call; false if the cache does
// not have it. It reads a slot again while the server writes it.
func (c *client) get(ctx context.Context, key []byte) (value []byte, ok bool, err error) {
	for range 1000 {
		if err := c.conn.Read(ctx, c.mr.Slice(0, slotSize), c.slots, slotOf(key, slots)*slotSize); err != nil {
			return nil, false, err
		}
		if value, ok, err = find(c.mr.Bytes()[:slotSize], key); !errors.Is(err, errTorn) {
			return value, ok, err
		}
	}
	return nil, false, err
}

// put stores a pair. When it returns, every client's get finds the pair.
func (c *client) put(ctx context.Context, key, value []byte) error {
	if len(key) == 0 || len(key)+len(value) > maxPair {
		return errPair
	}
	message := c.mr.Bytes()[slotSize:]
	binary.LittleEndian.PutUint16(message, uint16(len(key)))
	n := 2 + copy(message[2:], key)
	n += copy(message[n:], value)
	if err := c.conn.QP().PostRecv([]verbs.RecvWR{{}}); err != nil { // for the server's answer
		return err
	}
	if err := c.conn.Send(ctx, c.mr.Slice(slotSize, n)); err != nil {
		return err
	}
	_, err := c.conn.WaitRecv(ctx)
	if errors.Is(err, io.EOF) {
		return errors.New("the server ended")
	}
	return err
}
