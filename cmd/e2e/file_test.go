// The job file on any device: files, and ends in this process that break the protocol or leave.

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
	"github.com/rawverbs/rawverbs/softroce/softtest"
	"github.com/rawverbs/rawverbs/verbs"
)

// writeFile creates a file of n random bytes and returns its path.
func writeFile(t *testing.T, name string, n int) string {
	t.Helper()
	data := make([]byte, n)
	rand.NewChaCha8([32]byte([]byte(fmt.Sprintf("%-32.32s", name)))).Read(data)
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// holds checks that a folder has exactly these files, including hidden files.
func holds(t *testing.T, folder string, files ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if fmt.Sprintf("%q", names) != fmt.Sprintf("%q", files) {
		t.Errorf("the folder holds %q, want %q", names, files)
	}
}

func sameContent(t *testing.T, path, original string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	want, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes that are not the %d of %s", path, len(got), len(want), original)
	}
}

func fileExercises(t *testing.T) []exercise {
	run := func(name string, bytes, chunks, slots int, flags ...string) exercise {
		path, folder := writeFile(t, name, bytes), t.TempDir()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(data)
		sum := hex.EncodeToString(digest[:])
		return exercise{
			name:   fmt.Sprintf("file, %d bytes %s", bytes, strings.Join(flags, " ")),
			server: []string{"--dir", folder, "--max-size", "1M"},
			client: append([]string{"--job", "file", "--file", path}, flags...),
			clientEvents: []wantEvent{
				wants("file.begun", "name", name, "bytes", bytes, "chunks", chunks, "slots", slots),
				wants("wr.posted", "msg", "post RDMA_WRITE_WITH_IMM", "imm", 0),
				wants("file.sent", "msg", "SUCCESS", "sha256", sum, "bytes", bytes),
			},
			serverEvents: []wantEvent{
				wants("object.made", "access", "LOCAL_WRITE|REMOTE_WRITE"),
				wants("file.begun", "name", name, "bytes", bytes, "slots", slots),
				wants("wr.completed", "opcode", "IBV_WC_RECV_RDMA_WITH_IMM", "imm", 0),
				wants("file.stored", "name", name, "sha256", sum),
				wants("wr.posted", "msg", "post SEND_WITH_IMM", "imm", chunks+1),
			},
			more: func(t *testing.T, _, _ *process) {
				holds(t, folder, name)
				sameContent(t, filepath.Join(folder, name), path)
			},
		}
	}
	return []exercise{
		run("empty", 0, 0, 1),
		run("grüße, 世界.txt", 1, 1, 2),
		run("many rounds", 70_001, 211, 16, "--chunk", "333"),
		run("one slot", 2<<20+7, 3, 1, "--chunk", "1M"),
	}
}

const (
	fakeChunk = 1000 // bytes
	fakeSlots = 16
)

// fakeSender is a client of the job file in this process. It does only what the test calls.
type fakeSender struct {
	*rc.Conn
	t      *testing.T
	dev    *verbs.Device // its own, so that nothing of it is left after close
	ring   *verbs.MR
	remote oob.Region
}

// dialSender connects a fakeSender that announces a file with this name and size. The error
// is the server's refusal.
func dialSender(t *testing.T, s *server, name string, size int64) (*fakeSender, error) {
	t.Helper()
	return dialSenderWith(t, s, map[string]string{"file_name": name, "file_size": strconv.FormatInt(size, 10), "chunk": strconv.Itoa(fakeChunk)})
}

// dialSenderWith is dialSender with these parameters.
func dialSenderWith(t *testing.T, s *server, params map[string]string) (*fakeSender, error) {
	t.Helper()
	f := &fakeSender{t: t, dev: openDevice(t)}
	var err error
	f.Conn, err = rc.Dial(testkit.Context(t), s.address(), rc.Config{
		Device: f.dev, Job: "file", Program: "e2e", Timeout: testkit.Limit,
		Params: params,
		Prepare: func(c *rc.Conn) (err error) {
			if f.ring, err = c.AllocMR("to send from", fakeSlots*fakeChunk, 0); err != nil {
				return err
			}
			return c.QP().PostRecv(make([]verbs.RecvWR, fakeSlots))
		},
	})
	if err != nil {
		f.dev.Close()
		return nil, err
	}
	t.Cleanup(f.close)
	f.remote, _ = f.PeerRegion("buffer")
	return f, nil
}

func (f *fakeSender) close() {
	f.Conn.Close()
	f.dev.Close()
}

func mustDialSender(t *testing.T, s *server, name string, size int64) *fakeSender {
	t.Helper()
	f, err := dialSender(t, s, name, size)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// send writes data to a slot with an immediate.
func (f *fakeSender) send(slot int, imm uint32, data []byte) {
	f.t.Helper()
	copy(f.ring.Bytes()[slot*fakeChunk:], data)
	err := f.QP().PostSend([]verbs.SendWR{{
		Opcode: verbs.OpRDMAWriteWithImm, Flags: verbs.SendSignaled, Imm: imm, SGL: []verbs.SGE{f.ring.SGE(slot*fakeChunk, len(data))},
		RemoteAddr: f.remote.Addr + uint64(slot*fakeChunk), RKey: f.remote.RKey,
	}})
	if err != nil {
		f.t.Fatal(err)
	}
}

// credit waits until the server has processed n messages.
func (f *fakeSender) credit(n uint32) {
	f.t.Helper()
	for {
		wc, err := f.WaitRecv(testkit.Context(f.t))
		if err != nil {
			f.t.Fatal(err)
		}
		if wc.Imm() == n {
			return
		}
	}
}

// partialSender returns a sender whose file is partly sent: the server has written one chunk of
// three.
func partialSender(t *testing.T, s *server, name string) *fakeSender {
	t.Helper()
	f := mustDialSender(t, s, name, 3*fakeChunk)
	f.send(0, 0, make([]byte, fakeChunk))
	f.credit(1)
	return f
}

// awaitFailures waits until n clients have failed.
func (s *server) awaitFailures(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d clients that failed", n), func() bool { return len(s.all("client.failed")) == n })
}

// TestFileLies runs clients that break the job's protocol. Nothing of their files may be
// left, and the server must keep serving.
func TestFileLies(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	s := serve(t, "--dir", folder)
	data := bytes.Repeat([]byte("x"), fakeChunk)
	sum := sha256.Sum256(data)
	failed := 0
	for name, test := range map[string]struct {
		do   func(*fakeSender)
		want string
	}{
		"another hash": {func(f *fakeSender) {
			f.send(0, 0, data)
			f.send(1, 1, make([]byte, sha256.Size))
		}, fmt.Sprintf("the received file has the SHA-256 %x, but the client reports 0000", sum)},
		"a chunk twice": {func(f *fakeSender) {
			f.send(0, 0, data)
			f.send(1, 0, data)
		}, "of 1000 bytes with the immediate 0, expected a WRITE_WITH_IMM of 32 bytes with the immediate 1"},
		"a chunk left out":  {func(f *fakeSender) { f.send(0, 1, data) }, "bytes with the immediate 0;"},
		"a chunk too short": {func(f *fakeSender) { f.send(0, 0, data[:999]) }, "is IBV_WC_RECV_RDMA_WITH_IMM of 999 bytes with the immediate 0, expected a WRITE_WITH_IMM of 1000 bytes"},
		"a SEND": {func(f *fakeSender) {
			if err := f.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled}}); err != nil {
				f.t.Fatal(err)
			}
		}, "the completion is IBV_WC_RECV of 0 bytes"},
		"outside the ring": {func(f *fakeSender) {
			f.remote.Addr += 2 * fakeChunk
			f.send(0, 0, data)
			if _, err := f.WaitSend(testkit.Context(f.t)); err == nil { // REM_ACCESS_ERR, or the server's error over TCP
				f.t.Error("it was written")
			}
			f.TCP().Fail("job", fmt.Errorf("it may not write there"))
		}, ""}, // the server's error depends on its device
	} {
		t.Run(name, func(t *testing.T) {
			f := mustDialSender(t, s, "name", fakeChunk)
			test.do(f)
			failed++
			s.awaitFailures(failed)
			s.event("client.failed", "error", test.want)
			f.close()
		})
	}
	holds(t, folder)
	s.stillServes(t)
	s.stops()
}

// TestFileClientGone checks that nothing of a file is left, however its client ends during
// the transfer.
func TestFileClientGone(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	folder := t.TempDir()
	patient, hasty := serve(t, "--dir", folder, never), serve(t, "--dir", folder, "--timeout", "2s")
	for name, test := range map[string]struct {
		goes func(*fakeSender)
		want string
	}{
		"closes":   {func(f *fakeSender) { f.close() }, "closed the connection"},
		"says why": {func(f *fakeSender) { f.TCP().Fail("job", fmt.Errorf("it has enough")) }, "it has enough"},
	} {
		t.Run(name, func(t *testing.T) {
			f := partialSender(t, patient, name)
			test.goes(f)
			patient.event("client.failed", "error", test.want)
			holds(t, folder)
			f.close()
		})
	}
	t.Run("falls still", func(t *testing.T) {
		insist(t, "waiting for chunk 1: the job made no progress for 2s", func() string {
			before := hasty.failures()
			f, err := dialSender(t, hasty, "name", 3*fakeChunk)
			if err != nil {
				return err.Error()
			}
			defer f.close()
			f.send(0, 0, make([]byte, fakeChunk))
			why := hasty.nextFailure(before).str("error")
			holds(t, folder)
			return why
		})
	})
	hasty.held.expect(t, hasty)
	hasty.stops()
	patient.stillServes(t)
	patient.stops()
}

// fakeTaker is a server of the job file in this process. It returns slots only when the test
// calls credit.
type fakeTaker struct {
	*muteServer
	t    *testing.T
	conn *rc.Conn
	ring *verbs.MR
}

func listenTaker(t *testing.T) *fakeTaker {
	t.Helper()
	dev := openDevice(t)
	k := &fakeTaker{t: t}
	k.muteServer = listenAs(t, dev, rc.Config{
		Access: verbs.AccessRemoteWrite,
		Device: dev, Timeout: testkit.Limit, Params: map[string]string{"max_size": strconv.Itoa(fakeSlots * fakeChunk)},
		Prepare: func(c *rc.Conn) (err error) {
			k.ring, err = c.AllocMR("ring", fakeSlots*fakeChunk, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
			if err != nil {
				return err
			}
			c.Share("buffer", k.ring)
			return c.QP().PostRecv(make([]verbs.RecvWR, fakeSlots))
		},
	})
	return k
}

// start starts a client.
func (k *fakeTaker) start(path string, flags ...string) *process {
	k.t.Helper()
	return start(k.t, "rdma_client", append(flags, "--job", "file", "--file", path, "--chunk", strconv.Itoa(fakeChunk), "--json", ipv4, device, k.port)...)
}

// sender starts a client that soon waits, because all slots are full.
func (k *fakeTaker) sender(path string, flags ...string) *process {
	k.t.Helper()
	c := k.start(path, flags...)
	k.conn = testkit.Receive(k.t, k.muteServer.conn, "the client's connection")
	k.t.Cleanup(func() { k.conn.Close() })
	for range fakeSlots {
		if _, err := k.conn.WaitRecv(testkit.Context(k.t)); err != nil {
			k.t.Fatal(err)
		}
	}
	return c
}

// credit returns slots. The immediate is the total number of processed messages.
func (k *fakeTaker) credit(total uint32) {
	k.t.Helper()
	if err := k.conn.QP().PostRecv(make([]verbs.RecvWR, fakeSlots)); err != nil {
		k.t.Fatal(err)
	}
	if err := k.conn.QP().PostSend([]verbs.SendWR{{Opcode: verbs.OpSendWithImm, Flags: verbs.SendSignaled, Imm: total}}); err != nil {
		k.t.Fatal(err)
	}
}

// TestFileNoCredit checks a client that waits for a slot. It must fail at the timeout, when
// the server ends, on a signal, and on a credit for messages that it has not sent.
func TestFileNoCredit(t *testing.T) {
	softtest.Long(t)
	noLeak(t)
	path := writeFile(t, "file", 100*fakeChunk)
	for name, test := range map[string]struct {
		do     func(k *fakeTaker, c *process)
		status int
		want   string
	}{
		"server closes":  {func(k *fakeTaker, _ *process) { k.conn.Close() }, 1, "closed the connection"},
		"server refuses": {func(k *fakeTaker, _ *process) { k.conn.TCP().Fail("job", fmt.Errorf("it has no more paper")) }, 1, "it has no more paper"},
		"interrupted":    {func(_ *fakeTaker, c *process) { c.signal(os.Interrupt) }, 130, "stopped by SIGINT"},
		"too much":       {func(k *fakeTaker, _ *process) { k.credit(fakeSlots + 1) }, 1, "with the immediate 17, expected a credit from 1 to 16"},
		"server's memory is gone": {func(k *fakeTaker, _ *process) {
			if err := k.ring.Close(); err != nil {
				k.t.Fatal(err)
			}
			k.credit(1)
		}, 1, "completed with IBV_WC_REM_ACCESS_ERR (10)"}, // not the flushed receive that follows
		"none": {func(k *fakeTaker, _ *process) { k.credit(0) }, 1, "with the immediate 0, expected a credit from 1 to 16"},
	} {
		t.Run(name, func(t *testing.T) {
			k := listenTaker(t)
			c := k.sender(path, never)
			test.do(k, c)
			c.fails(test.status, test.want)
		})
	}
	t.Run("timeout", func(t *testing.T) {
		runsOut(t, func() *process { return listenTaker(t).start(path, "--timeout", "2s") },
			"waiting for the server to return the slot of chunk 0: the job made no progress for 2s; try: a longer --timeout")
	})
}
