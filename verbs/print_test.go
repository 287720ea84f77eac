package verbs

import (
	stderrors "errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

func TestNamesAreTheCNames(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{OpSend, "IBV_WR_SEND"}, {OpAtomicFetchAndAdd, "IBV_WR_ATOMIC_FETCH_AND_ADD"}, {OpAtomicWrite, "IBV_WR_ATOMIC_WRITE"}, {OpFlush, "IBV_WR_FLUSH"}, {Opcode(99), "verbs.Opcode(99)"}, {Opcode(0), "unset"},
		{SendSignaled | SendInline, "IBV_SEND_SIGNALED|IBV_SEND_INLINE"}, {SendFlags(0), "0"}, {SendFlags(1 << 9), "0x200"},
		{SRQMaxWR | SRQLimit, "IBV_SRQ_MAX_WR|IBV_SRQ_LIMIT"}, {CQIgnoreOverrun, "IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN"},
		{WCExImm | WCExWallclock, "IBV_WC_EX_WITH_IMM|IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK"},
		{WCSuccess, "IBV_WC_SUCCESS"}, {WCRetryExcErr, "IBV_WC_RETRY_EXC_ERR"}, {WCGeneralErr, "IBV_WC_GENERAL_ERR"}, {WCStatus(77), "ibv_wc_status(77)"},
		{WCRecv, "IBV_WC_RECV"}, {WCRecvRDMAWithImm, "IBV_WC_RECV_RDMA_WITH_IMM"}, {WCFetchAdd, "IBV_WC_FETCH_ADD"}, {WCFlush, "IBV_WC_FLUSH"}, {WCAtomicWrite, "IBV_WC_ATOMIC_WRITE"},
		{FlushGlobal | FlushPersistent, "IBV_FLUSH_GLOBAL|IBV_FLUSH_PERSISTENT"}, {FlushMR, "IBV_FLUSH_MR"}, {CapFlushGlobal | CapAtomicWrite, "IBV_DEVICE_FLUSH_GLOBAL|IBV_DEVICE_ATOMIC_WRITE"},
		{ODPFlush | ODPAtomicWrite, "IBV_ODP_SUPPORT_FLUSH|IBV_ODP_SUPPORT_ATOMIC_WRITE"}, {WCOpcode(55), "ibv_wc_opcode(55)"},
		{WCWithImm | WCGRH, "IBV_WC_GRH|IBV_WC_WITH_IMM"},
		{NodeCA, "IBV_NODE_CA"}, {NodeType(0), "ibv_node_type(0)"}, {TransportIWARP, "IBV_TRANSPORT_IWARP"},
		{AtomicHCA, "IBV_ATOMIC_HCA"}, {PortActive, "IBV_PORT_ACTIVE"}, {LinkEthernet, "IBV_LINK_LAYER_ETHERNET"},
		{GIDTypeRoCEv2, "IBV_GID_TYPE_ROCE_V2"}, {GIDType(9), "ibv_gid_type(9)"},
		{EventWQFatal, "IBV_EVENT_WQ_FATAL"}, {EventType(99), "ibv_event_type(99)"},
		{AsyncEvent{Type: EventQPFatal, QPN: 17}, "IBV_EVENT_QP_FATAL on QP 0x000011"},
		{AsyncEvent{Type: EventDeviceFatal}, "IBV_EVENT_DEVICE_FATAL"},
		{rxeTable[1], "1: ::ffff:10.99.0.1 RoCE v2 on eth0"},
		{MWType2, "IBV_MW_TYPE_2"}, {MWType(7), "ibv_mw_type(7)"},
		{AdvisePrefetchWrite, "IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE"}, {AdviseFlush, "IBV_ADVISE_MR_FLAG_FLUSH"},
		{ReregTranslation | ReregAccess, "IBV_REREG_MR_CHANGE_TRANSLATION|IBV_REREG_MR_CHANGE_ACCESS"},
		{CapMemWindow | CapPCIWriteEndPad | 1<<50, "IBV_DEVICE_MEM_WINDOW|IBV_DEVICE_PCI_WRITE_END_PADDING|0x4000000000000"}, {DeviceCap(0), "0"},
		{ODPSend | ODPSRQRecv, "IBV_ODP_SUPPORT_SEND|IBV_ODP_SUPPORT_SRQ_RECV"},
		{PostWRAPI, "wr-api"}, {PostPath(9), "PostPath(9)"},
		{DeviceInfo{Name: "rxe0", Provider: "libibverbs"}, "rxe0 (libibverbs)"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T: got %q, want %q", c.value, got, c.want)
		}
	}
}

func TestEveryStatusHasItsNumberAndNoHintIsLost(t *testing.T) {
	for s, want := range map[WCStatus]string{
		WCLocProtErr: "lkey", WCWRFlushErr: "first completion", WCRemAccessErr: "rkey", WCRemInvReqErr: "access flag",
		WCRetryExcErr: "4791", WCRNRRetryExcErr: "RNR_RETRY", WCLocLenErr: "MTU",
	} {
		err := (&WC{ID: 3, Status: s, QPN: 17, VendorErr: 5}).Err()
		var we *WCError
		if s == WCRetryExcErr && !strings.Contains(err.Error(), "gone, stopped or overloaded") {
			t.Errorf("%v lacks what most often is the cause: %v", s, err)
		}
		if !errors.As(errors.WithMessage(err, "wrapped"), &we) || we.Status != s ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "vendor error 0x5") {
			t.Errorf("%v: %v lacks %q", s, err, want)
		}
	}
	if err := (&WC{}).Err(); err != nil {
		t.Errorf("success is %v", err)
	}
}

func TestErrorsAreFoundThroughWraps(t *testing.T) {
	err := errors.WithMessage(fail("ibv_create_qp", "rxe0", "UC", syscall.EOPNOTSUPP), "making a queue pair")
	var ve *Error
	if !errors.As(err, &ve) || ve.Op != "ibv_create_qp" || ve.Device != "rxe0" || ve.Errno != syscall.EOPNOTSUPP {
		t.Errorf("errors.As: %+v", ve)
	}
	if !errors.Is(err, stderrors.ErrUnsupported) || !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
	want := "making a queue pair: ibv_create_qp on rxe0 (UC): EOPNOTSUPP (95, operation not supported); try: use a transport type that the device has (RC is the common one), and PostAuto as the PostPath"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
	if fail("x", "", "", nil) != nil {
		t.Error("no error became one")
	}
	post := &PostError{Op: "ibv_post_send", QPN: 17, Index: 3, Err: syscall.ENOMEM}
	if !errors.Is(post, syscall.ENOMEM) || !strings.Contains(post.Error(), "[3]") || !strings.Contains(post.Error(), "send queue is full") {
		t.Errorf("got %v", post)
	}
	if got := errnoText(syscall.Errno(4000)); !strings.Contains(got, "4000") {
		t.Errorf("an unknown errno prints as %q", got)
	}
}

// TestErrorsHaveOneTry reads the texts of errors that have remedies, and causes with remedies.
func TestErrorsHaveOneTry(t *testing.T) {
	unlisted := providerErrors{
		fail("ibv_get_device_list", "libibverbs", "", syscall.ENOSYS),
		errors.New("no network; try: the cable"),
		errors.New("no reason"),
	}
	all := []error{
		unlisted,
		noDevice("rxe7", nil, unlisted),
		noDevice("rxe7", []DeviceInfo{{Name: "soft0", Provider: "softroce"}}, unlisted),
		fail("ibv_open_device", "soft0", "", fmt.Errorf("%w: no room; try: a larger host", syscall.ENOMEM)),
	}
	for _, e := range diagnosis.Entries() {
		switch errno := syscall.Errno(e.Number); {
		case e.Kind == diagnosis.Status && e.Number != 0:
			all = append(all, (&WC{Status: WCStatus(e.Number)}).Err())
		case e.Kind == diagnosis.Errno:
			for _, call := range append([]string{"ibv_query_device"}, e.Calls...) {
				all = append(all, fail(call, "rxe0", "", errno), &PostError{Op: call, Err: errno})
			}
		}
	}
	for _, err := range all {
		if text := err.Error(); strings.Count(text, "try:") > 1 || strings.Contains(text, "?; ") {
			t.Error(text)
		}
	}
	says(t, all[2], []string{"ENOSYS (38, function not implemented); no network; no reason; try: one of those that exist: soft0 (softroce); or load ", "; or the cable"})
	says(t, all[3], []string{": no room; try: ", "; or a larger host"})
}

func TestImmAndInvalidatedRKeyAreOnlyThereWhenFlagged(t *testing.T) {
	var wc WC
	wc.SetImm(7)
	if wc.Imm() != 7 || wc.InvalidatedRKey() != 0 {
		t.Errorf("got %d, %d", wc.Imm(), wc.InvalidatedRKey())
	}
	wc = WC{}
	wc.SetInvalidatedRKey(8)
	if wc.Imm() != 0 || wc.InvalidatedRKey() != 8 {
		t.Errorf("got %d, %d", wc.Imm(), wc.InvalidatedRKey())
	}
}

func TestLinkSpeed(t *testing.T) {
	for _, c := range []struct {
		width, speed uint8
		lanes        int
		gbit         float64
	}{{1, 8, 1, 10}, {2, 32, 4, 100}, {16, 128, 2, 200}, {4, 1, 8, 20}, {8, 2, 12, 60}, {3, 1, 0, 0}, {1, 0, 1, 0}, {1, 3, 1, 0}} {
		a := PortAttr{ActiveWidth: c.width, ActiveSpeed: c.speed}
		if a.Lanes() != c.lanes || a.GbitPerSecond() != c.gbit {
			t.Errorf("codes %d, %d: %d lanes, %g Gbit/s", c.width, c.speed, a.Lanes(), a.GbitPerSecond())
		}
	}
}
