// Command cgo uses libibverbs as Go programs with cgo do: `x, err := C.ibv_…()`, where any errno is an error. With the
// software device it has two Go runtimes, this program's and the core's: cgo CASE. It prints ok, or what failed.
package main

// #cgo LDFLAGS: -libverbs
// #include <infiniband/verbs.h>
// #include <stdlib.h>
// #include <sys/mman.h>
import "C"

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
	"unsafe"
)

const (
	size     = 4096
	messages = 200
	access   = C.IBV_ACCESS_LOCAL_WRITE | C.IBV_ACCESS_REMOTE_WRITE
)

func main() {
	device := open()
	switch os.Args[1] {
	case "poll":
		exchange(device, false)
	case "events":
		exchange(device, true)
	case "goroutines": // each has a pair; the collector stops this runtime's world, and preempts by SIGURG
		done := make(chan struct{})
		go collect(done)
		var group sync.WaitGroup
		for i := range 8 {
			group.Go(func() { exchange(device, i%2 == 0) })
		}
		group.Wait()
		close(done)
	case "profile": // SIGPROF meets threads in the core
		check(pprof.StartCPUProfile(io.Discard))
		exchange(device, false)
		pprof.StopCPUProfile()
	case "signals":
		signals(device)
	case "panic":
		recovered()
		exchange(device, false)
		recovered()
	case "unmapped":
		unmapped(device)
	}
	_, err := C.ibv_close_device(device)
	check(err)
	fmt.Println("ok")
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// open opens the first device.
func open() *C.struct_ibv_context {
	list, err := C.ibv_get_device_list(nil)
	check(err)
	defer C.ibv_free_device_list(list)
	device, err := C.ibv_open_device(*list)
	check(err)
	return device
}

// end is one end of a connection: a queue pair with its own objects.
type end struct {
	channel *C.struct_ibv_comp_channel
	pd      *C.struct_ibv_pd
	cq      *C.struct_ibv_cq
	qp      *C.struct_ibv_qp
	mr      *C.struct_ibv_mr
	memory  unsafe.Pointer
	bytes   []byte
	events  bool
	wr      *requests
}

// requests lies in C's memory, because it has pointers.
type requests struct {
	sge     C.struct_ibv_sge
	send    C.struct_ibv_send_wr
	recv    C.struct_ibv_recv_wr
	badSend *C.struct_ibv_send_wr
	badRecv *C.struct_ibv_recv_wr
	wc      C.struct_ibv_wc
}

func newEnd(device *C.struct_ibv_context, events bool) *end {
	e := &end{events: events, wr: (*requests)(C.calloc(1, C.size_t(unsafe.Sizeof(requests{}))))}
	var err error
	e.channel, err = C.ibv_create_comp_channel(device)
	check(err)
	e.pd, err = C.ibv_alloc_pd(device)
	check(err)
	e.cq, err = C.ibv_create_cq(device, 2*messages, nil, e.channel, 0)
	check(err)
	_, err = C.ibv_req_notify_cq(e.cq, 0)
	check(err)
	init := C.struct_ibv_qp_init_attr{send_cq: e.cq, recv_cq: e.cq, qp_type: C.IBV_QPT_RC, sq_sig_all: 1}
	init.cap = C.struct_ibv_qp_cap{max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1}
	e.qp, err = C.ibv_create_qp(e.pd, &init)
	check(err)
	e.memory, err = C.mmap(nil, size, C.PROT_READ|C.PROT_WRITE, C.MAP_PRIVATE|C.MAP_ANONYMOUS, -1, 0)
	check(err)
	e.bytes = unsafe.Slice((*byte)(e.memory), size)
	e.mr, err = C.ibv_reg_mr(e.pd, e.memory, size, access)
	check(err)
	e.wr.sge = C.struct_ibv_sge{addr: C.uint64_t(uintptr(e.memory)), length: size, lkey: e.mr.lkey}
	e.wr.send = C.struct_ibv_send_wr{sg_list: &e.wr.sge, num_sge: 1, opcode: C.IBV_WR_SEND}
	e.wr.recv = C.struct_ibv_recv_wr{sg_list: &e.wr.sge, num_sge: 1}
	return e
}

func (e *end) connect(device *C.struct_ibv_context, peer *end) {
	attr := C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_INIT, port_num: 1, qp_access_flags: access}
	_, err := C.ibv_modify_qp(e.qp, &attr, C.IBV_QP_STATE|C.IBV_QP_PKEY_INDEX|C.IBV_QP_PORT|C.IBV_QP_ACCESS_FLAGS)
	check(err)
	attr = C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTR, path_mtu: C.IBV_MTU_1024, dest_qp_num: peer.qp.qp_num, min_rnr_timer: 12}
	attr.ah_attr = C.struct_ibv_ah_attr{is_global: 1, port_num: 1}
	attr.ah_attr.grh.sgid_index = 1
	_, err = C.ibv_query_gid(device, 1, 1, &attr.ah_attr.grh.dgid)
	check(err)
	_, err = C.ibv_modify_qp(e.qp, &attr, C.IBV_QP_STATE|C.IBV_QP_AV|C.IBV_QP_PATH_MTU|C.IBV_QP_DEST_QPN|C.IBV_QP_RQ_PSN|
		C.IBV_QP_MAX_DEST_RD_ATOMIC|C.IBV_QP_MIN_RNR_TIMER)
	check(err)
	attr = C.struct_ibv_qp_attr{qp_state: C.IBV_QPS_RTS, timeout: 14, retry_cnt: 7, rnr_retry: 7}
	_, err = C.ibv_modify_qp(e.qp, &attr, C.IBV_QP_STATE|C.IBV_QP_SQ_PSN|C.IBV_QP_TIMEOUT|C.IBV_QP_RETRY_CNT|C.IBV_QP_RNR_RETRY|
		C.IBV_QP_MAX_QP_RD_ATOMIC)
	check(err)
}

func pair(device *C.struct_ibv_context, events bool) (a, b *end) {
	a, b = newEnd(device, events), newEnd(device, events)
	a.connect(device, b)
	b.connect(device, a)
	return a, b
}

func (e *end) send() {
	_, err := C.ibv_post_send(e.qp, &e.wr.send, &e.wr.badSend)
	check(err)
}

func (e *end) recv() {
	_, err := C.ibv_post_recv(e.qp, &e.wr.recv, &e.wr.badRecv)
	check(err)
}

// wait returns the status of the next completion.
func (e *end) wait() C.enum_ibv_wc_status {
	for {
		n, err := C.ibv_poll_cq(e.cq, 1, &e.wr.wc)
		check(err)
		switch {
		case n == 1:
			return e.wr.wc.status
		case n < 0:
			panic("ibv_poll_cq")
		case e.events:
			var cq *C.struct_ibv_cq
			var context unsafe.Pointer
			_, err = C.ibv_get_cq_event(e.channel, &cq, &context)
			check(err)
			C.ibv_ack_cq_events(cq, 1)
			_, err = C.ibv_req_notify_cq(e.cq, 0)
			check(err)
		default:
			runtime.Gosched()
		}
	}
}

func (e *end) expect(want C.enum_ibv_wc_status) {
	if got := e.wait(); got != want {
		panic(fmt.Sprintf("%s, want %s", C.GoString(C.ibv_wc_status_str(got)), C.GoString(C.ibv_wc_status_str(want))))
	}
}

func (e *end) close() {
	_, err := C.ibv_destroy_qp(e.qp)
	check(err)
	_, err = C.ibv_destroy_cq(e.cq)
	check(err)
	_, err = C.ibv_dereg_mr(e.mr)
	check(err)
	_, err = C.ibv_dealloc_pd(e.pd)
	check(err)
	_, err = C.ibv_destroy_comp_channel(e.channel)
	check(err)
	C.munmap(e.memory, size)
	C.free(unsafe.Pointer(e.wr))
}

// exchange sends messages from one end to the other, and checks what arrives.
func exchange(device *C.struct_ibv_context, events bool) {
	a, b := pair(device, events)
	for i := range messages {
		for j := range a.bytes {
			a.bytes[j] = byte(i + j)
		}
		b.recv()
		a.send()
		a.expect(C.IBV_WC_SUCCESS)
		b.expect(C.IBV_WC_SUCCESS)
		if string(a.bytes) != string(b.bytes) {
			panic("other bytes arrived")
		}
	}
	a.close()
	b.close()
}

// collect makes garbage and collects it until done is closed.
func collect(done chan struct{}) {
	var garbage [][]byte
	for {
		select {
		case <-done:
			return
		default:
			garbage = append(garbage[:len(garbage)%64], make([]byte, 64<<10))
			runtime.GC()
		}
	}
}

// recovered panics by a nil pointer, which is this runtime's signal.
func recovered() {
	defer func() {
		if recover() == nil {
			panic("no panic")
		}
	}()
	var none *end
	none.bytes[0] = 1
}

// signals gets signals and runs other programs while messages are exchanged.
func signals(device *C.struct_ibv_context) {
	user, child := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(user, syscall.SIGUSR1)
	signal.Notify(child, syscall.SIGCHLD)
	var group sync.WaitGroup
	group.Go(func() { exchange(device, false) })
	for range 20 {
		check(exec.Command("true").Run())
		<-child
		check(syscall.Kill(os.Getpid(), syscall.SIGUSR1))
		<-user
	}
	group.Wait()
}

// unmapped has the core touch memory that is gone: the fault is the core's, and its request fails.
func unmapped(device *C.struct_ibv_context) {
	a, b := pair(device, false)
	b.recv()
	C.munmap(a.memory, size)
	a.send()
	a.expect(C.IBV_WC_LOC_PROT_ERR)
	recovered()
	a.close()
	b.close()
	exchange(device, false)
}
