package diagnosis

import (
	"slices"
	"strings"
	"testing"
)

func keys(found []*Entry) []string {
	var all []string
	for _, e := range found {
		all = append(all, e.Key)
	}
	return all
}

func TestFindByNameAndNumber(t *testing.T) {
	for query, want := range map[string]string{
		"12":                   "errno ENOMEM, status RETRY_EXC_ERR, event PKEY_CHANGE",
		"0":                    "status SUCCESS, event CQ_ERR",
		"200":                  "",
		"RNR_RETRY_EXC":        "status RNR_RETRY_EXC_ERR, stalls",
		"ibv_wc_rnr_retry_exc": "status RNR_RETRY_EXC_ERR, stalls",
		"IBV_EVENT_PORT_ERR":   "event PORT_ERR",
		"reg_mr enomem":        "ibv_reg_mr ENOMEM",
		"ibv_alloc_pd":         "ibv_alloc_pd ENOMEM",
		"ENFILE":               "errno ENFILE, no-more-files",
		"gid-0":                "gid-0",
		"fatal_err":            "status FATAL_ERR",
		"IBV_WC_FATAL":         "status FATAL_ERR",
		"ibv_alloc_pd EINVAL":  "",
		"xyzzy":                "",
		"xyzzy plugh capture":  "",
		"status 12":            "status RETRY_EXC_ERR",
		"event 12":             "event PKEY_CHANGE",
		"errno 400":            "",
		"":                     "",
	} {
		if got := strings.Join(keys(Find(strings.Fields(query)...)), ", "); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

// TestEverySymptomIsFound asks for what people meet with raw verbs, in their words.
func TestEverySymptomIsFound(t *testing.T) {
	for _, c := range []struct{ query, key string }{
		{"INIT EINVAL", "init-einval"},
		{"RTR EINVAL", "rtr-no-grh"},
		{"RoCE without GRH", "rtr-no-grh"},
		{"RTR EINVAL port", "rtr-port"},
		{"RTR ENODATA", "ibv_modify_qp ibv_create_ah ENODATA"},
		{"RTR EINVAL fe80", "rtr-families"},
		{"worked yesterday", "gid-moved"},
		{"RTR ETIMEDOUT", "ibv_modify_qp ibv_create_ah ETIMEDOUT"},
		{"GID 0 fails", "gid-0"},
		{"RTR ENODEV", "ibv_modify_qp ibv_create_ah ENODEV"},
		{"changing TIMEOUT in RTS", "timeout-in-rts"},
		{"small works, large gets RETRY_EXC", "large-messages"},
		{"status 9 or 1 on multi-packet messages", "mtu-differs"},
		{"RETRY_EXC", "status RETRY_EXC_ERR"},
		{"nothing arrives", "psn"},
		{"RNR_RETRY_EXC", "status RNR_RETRY_EXC_ERR"},
		{"0.6 s stalls, no error", "stalls"},
		{"why does my send hang", "no-completion"},
		{"REM_ACCESS", "status REM_ACCESS_ERR"},
		{"REM_INV_REQ", "status REM_INV_REQ_ERR"},
		{"LOC_PROT", "status LOC_PROT_ERR"},
		{"a flood of WR_FLUSH", "flushes"},
		{"post_send ENOMEM", "ibv_post_send ENOMEM"},
		{"IBV_EVENT_CQ_ERR", "event CQ_ERR"},
		{"reg_mr ENOMEM", "ibv_reg_mr ENOMEM"},
		{"create_cq ENOMEM", "ibv_create_cq ibv_create_cq_ex ENOMEM"},
		{"reg_mr EAGAIN", "ibv_reg_mr EAGAIN"},
		{"no devices", "no-device"},
		{"no userspace driver", "no-device"},
		{"rdma link add fails", "rdma-link-add"},
		{"a capture shows nothing", "empty-capture"},
		{"imm_data looks swapped", "imm-swapped"},

		// What C programs print.
		{"transport retry counter exceeded", "status RETRY_EXC_ERR"},
		{"Work Request Flushed Error", "status WR_FLUSH_ERR"},
		{"local catastrophic error", "event DEVICE_FATAL"},
		{"Cannot allocate memory", "errno ENOMEM"},
		{"no route to host", "errno EHOSTUNREACH"},
	} {
		if got := keys(Find(strings.Fields(c.query)...)); !slices.Contains(got, c.key) {
			t.Errorf("%q finds %q, not %q", c.query, got, c.key)
		}
	}
}
